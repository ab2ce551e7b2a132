// A callee on this machine: it does the work of each key once. `node outside/receiver.mjs PORT`, by default 9000.
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";

const WORKS = "target/works.jsonl";

function known() {
  const lines = existsSync(WORKS) ? readFileSync(WORKS, "utf8").trimEnd().split("\n") : [];
  return new Set(lines.map((line) => JSON.parse(line).key));
}

function taken(key, event, work) {
  if (key === undefined) return [400, "no key"];
  if (event.startsWith("in#hookonce-test#")) return [200, "a probe"];
  if (known().has(key)) return [200, "done before"];
  // The key and the work are one line, so a crash leaves both or neither.
  appendFileSync(WORKS, `${JSON.stringify({ key, work })}\n`);
  return [200, "done"];
}

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const event = request.headers["hookonce-event"] ?? "-";
  const [status, word] = taken(request.headers["hookonce-key"], event, Buffer.concat(parts).toString());
  console.log(`${word}: ${event}`);
  response.writeHead(status).end();
});

mkdirSync("target", { recursive: true });
server.listen(Number(process.argv[2] ?? 9000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/in`);
});
