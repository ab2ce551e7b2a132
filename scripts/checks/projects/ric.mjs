// Runs the given client of the Runtime API behind an address without a path: `aws-lambda-ric` takes no other one, and
// the address of `hookonce dev` ends with a key.
import { spawn } from "node:child_process";
import { createServer, request } from "node:http";

const api = process.env["AWS_LAMBDA_RUNTIME_API"];
const host = api.split("/")[0];
const server = createServer((incoming, outgoing) => {
  const headers = { ...incoming.headers, host };
  const passed = request(`http://${api}${incoming.url}`, { method: incoming.method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
  });
  passed.on("error", () => outgoing.destroy());
  incoming.pipe(passed);
});
server.listen(0, "127.0.0.1", () => {
  const env = { ...process.env, AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${server.address().port}` };
  spawn(process.execPath, process.argv.slice(2), { env, stdio: "inherit" }).on("exit", (code) => process.exit(code ?? 1));
});
