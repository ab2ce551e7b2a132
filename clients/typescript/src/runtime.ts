#!/usr/bin/env node
/**
 * Runs a Lambda entry behind a Runtime API, as Lambda does: `hookonce-runtime app.lambdaHandler`.
 *
 * `hookonce dev --handler NAME=COMMAND` starts such a command. On Lambda, the managed Node runtime does this.
 */
import { once } from "node:events";
import { existsSync, realpathSync } from "node:fs";
import { type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Answers one invocation after the other, until the Runtime API is gone. */
export async function run(entry: (event: never) => Promise<unknown>): Promise<never> {
  const invocations = `http://${process.env["AWS_LAMBDA_RUNTIME_API"]}/2018-06-01/runtime/invocation`;
  for (;;) {
    const next = await call("GET", `${invocations}/next`);
    const [kind, answer] = await invoke(entry, next.body);
    await call("POST", `${invocations}/${next.headers["lambda-runtime-aws-request-id"]}/${kind}`, answer);
  }
}

/** Unlike `fetch`, this waits for the next invocation as long as it takes. */
async function call(method: string, url: string, data = ""): Promise<{ headers: IncomingHttpHeaders; body: string }> {
  const outgoing = request(url, { method, headers: { "content-type": "application/json" } });
  outgoing.end(data);
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  const body = await text(response);
  if (response.statusCode !== 200 && response.statusCode !== 202) throw new Error("the Runtime API refused the call");
  return { headers: response.headers, body };
}

async function invoke(entry: (event: never) => Promise<unknown>, event: string): Promise<[string, string]> {
  try {
    return ["response", JSON.stringify(await entry(JSON.parse(event) as never))];
  } catch (error) {
    // As on Lambda: one failed invocation does not end the process.
    console.error(error);
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return ["error", JSON.stringify({ errorType: name, errorMessage: message })];
  }
}

async function main(target: string | undefined): Promise<void> {
  const [, path, name] = /^(.+)\.(\w+)$/.exec(target ?? "") ?? [];
  const file = [".js", ".mjs"].map((extension) => resolve(`${path}${extension}`)).find(existsSync);
  if (path === undefined || name === undefined || file === undefined) {
    console.error("usage: hookonce-runtime FILE_WITHOUT_EXTENSION.FUNCTION");
    process.exit(2);
  }
  const module = (await import(pathToFileURL(file).href)) as { [name: string]: (event: never) => Promise<unknown> };
  const entry = module[name];
  if (entry === undefined) throw new Error(`${file} exports no ${name}`);
  await run(entry);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await main(process.argv[2]);
}
