#!/usr/bin/env node
// Runs the hookonce of this machine, which npm has installed as a package of its own.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const name = `hookonce-cli-${process.platform}-${process.arch}`;
let binary;
try {
    binary = createRequire(import.meta.url).resolve(`${name}/hookonce${process.platform === "win32" ? ".exe" : ""}`);
} catch {
    console.error(`error: the package ${name} is not installed\ntry: install hookonce-cli with its optional packages; there may be none for this machine`);
    process.exit(2);
}
const hookonce = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
hookonce.on("error", (error) => { throw error; });
hookonce.on("exit", (status) => process.exit(status ?? 1));
// A terminal sends Ctrl-C to both, and hookonce decides when to end. Any other signal reaches this process alone.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => hookonce.kill(signal));
