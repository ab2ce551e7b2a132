#!/usr/bin/env node
// Runs the hookonce of this machine, which npm has installed as a package of its own.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

const name = `hookonce-cli-${process.platform}-${process.arch}`;
let binary;
try {
    binary = createRequire(import.meta.url).resolve(`${name}/hookonce${process.platform === "win32" ? ".exe" : ""}`);
} catch {
    console.error(`error: the package ${name} is not installed\ntry: install hookonce-cli with its optional packages; there may be none for this machine`);
    process.exit(2);
}
// A terminal sends Ctrl-C to both. hookonce decides when to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});
const { error, signal, status } = spawnSync(binary, process.argv.slice(2), { stdio: "inherit" });
if (error) throw error;
process.exit(status ?? (signal ? 1 : 0));
