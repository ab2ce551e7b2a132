#!/usr/bin/env node
// Runs the hookonce of this machine, which npm has installed as a package of its own.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";

const fail = (what, hint) => {
    console.error(`error: ${what}\ntry: ${hint}`);
    process.exit(2);
};
const isWindows = process.platform === "win32";
const name = `hookonce-cli-${process.platform}-${process.arch}`;
let binary;
try {
    binary = createRequire(import.meta.url).resolve(`${name}/hookonce${isWindows ? ".exe" : ""}`);
} catch {
    fail(`the package ${name} is not installed`, "install hookonce-cli with its optional packages; there may be none for this machine");
}
const hookonce = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
hookonce.on("error", ({ message }) => fail(`${binary} cannot start: ${message}`, "install hookonce-cli again"));
hookonce.on("exit", (status, signal) => process.exit(status ?? 128 + constants.signals[signal]));
// hookonce decides when to end. What reaches both, such as Ctrl-C on a terminal, it takes for one signal. On Windows, `kill` would
// end it at once, and the console tells it itself.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => isWindows || hookonce.kill(signal));
