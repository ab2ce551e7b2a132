// A stack on this machine for the check: `hookonce dev`, a handler that can be broken, a callee, and the commands.
import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

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

// What the effects of the handler call: it counts the calls, and answers as a check wants.
const startCallee = async () => {
  const callee = { calls: 0, status: 200, text: "done" };
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    callee.calls += 1;
    response.statusCode = callee.status;
    response.end(callee.text);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  callee.url = `http://127.0.0.1:${server.address().port}/`;
  callee.stop = () => server.close();
  return callee;
};

// The handler of every event: it applies the event, mails a receipt if the event asks for it, or fails for good while it is broken.
const startHandler = async () => {
  const handler = { broken: false, code: "TAX_RATE_MISSING", failed: 0 };
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const part of request) text += part;
    const { request: number, event } = JSON.parse(text);
    const body = Buffer.from(event.body_base64, "base64").toString();
    const broken = handler.broken && body.includes("poison");
    handler.failed += broken ? 1 : 0;
    const mails = body.includes("mails");
    const effects = mails ? [{ effect: "receipt", destination: "mailer", payload: { of: event.key } }] : [];
    const plan = broken
      ? { request: number, error: { code: handler.code, retryable: false } }
      : { request: number, fact: (mails ? "receipt-" : "") + encodeURIComponent(event.key), writes: [], effects };
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
  const [handler, callee] = [await startHandler(), await startCallee()];
  mkdirSync(join(folder, ".hookonce", "destinations"), { recursive: true });
  const mailer = { kind: "http", url: callee.url, class: "at_least_once", allow_private: true };
  writeFileSync(join(folder, ".hookonce", "destinations", "mailer.json"), JSON.stringify(mailer));
  const handled = { consumer: "shop", handler: { url: handler.url }, destinations: ["mailer"] };
  const routes = [{ name: "refunds", types: ["charge.refunded"], ...handled }, { name: "all", ...handled }];
  writeFileSync(join(folder, ".hookonce", "routes.json"), JSON.stringify({ version: 1, otherwise: "dead", routes }));
  const run = (...words) => execFileSync(hookonce, words, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  // A command that asks the handler, which this process serves meanwhile.
  const ask = async (...words) => {
    const { stdout, stderr } = await promisify(execFile)(hookonce, words, { cwd: folder, encoding: "utf8" });
    return stdout + stderr;
  };
  const dev = spawn(hookonce, ["dev", "--port", "0"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  const entrance = await until("the stack runs", () => { try { return run("console").trim(); } catch { return null; } });
  run("endpoint", "add", "chat", "--provider", "meta_whatsapp", "--tenant", "acme");
  return {
    folder, handler, callee, entrance, run, ask,
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
      callee.stop();
      rmSync(folder, { recursive: true });
    },
  };
};
