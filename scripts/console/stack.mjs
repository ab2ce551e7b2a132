// A stack on this machine for the check: `hookonce dev`, a handler that can be broken, and the commands.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const DEADLINE_MS = 60_000;

export const until = async (what, check) => {
  const end = Date.now() + DEADLINE_MS;
  while (Date.now() < end) {
    const found = await check();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not within ${DEADLINE_MS} ms: ${what}`);
};

// The handler of every event: it applies one item, or fails for good while it is broken.
const startHandler = async () => {
  const handler = { broken: false };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const { request: number, event } = JSON.parse(text);
    const body = Buffer.from(event.body_base64, "base64").toString();
    const plan = handler.broken && body.includes("poison")
      ? { request: number, error: { code: "TAX_RATE_MISSING", retryable: false } }
      : { request: number, fact: encodeURIComponent(event.key), writes: [] };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(plan));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  handler.url = `http://127.0.0.1:${server.address().port}/`;
  handler.stop = () => server.close();
  return handler;
};

export const startStack = async (hookonce) => {
  const folder = mkdtempSync(join(tmpdir(), "hookonce-console-"));
  const handler = await startHandler();
  mkdirSync(join(folder, ".hookonce"));
  const handled = { consumer: "shop", handler: { url: handler.url } };
  const routes = [{ name: "refunds", types: ["charge.refunded"], ...handled }, { name: "all", ...handled }];
  writeFileSync(join(folder, ".hookonce", "routes.json"), JSON.stringify({ version: 1, otherwise: "dead", routes }));
  const run = (...words) => execFileSync(hookonce, words, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const dev = spawn(hookonce, ["dev", "--port", "0"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  const entrance = await until("the stack runs", () => { try { return run("console").trim(); } catch { return null; } });
  return {
    folder, handler, entrance, run,
    // The address of all pages, without a slash at its end.
    base: entrance.split("/?")[0],
    origin: new URL(entrance).origin,
    list: (...words) => JSON.parse(run("list", "--json", ...words)),
    write: (name, text) => { writeFileSync(join(folder, name), text); return join(folder, name); },
    stop: async () => {
      const ended = new Promise((resolve) => dev.once("exit", resolve));
      dev.kill("SIGINT");
      await ended;
      handler.stop();
      rmSync(folder, { recursive: true });
    },
  };
};
