// Runs the tests of clients/python on Python 3.10.2, which no Debian and no PyPI has: as WebAssembly, in Node.
// There are no sockets and no processes, so what needs them is left out.
//
// usage: node pytest.mjs NODE_MODULES PACKAGES
//
// NODE_MODULES has Pyodide, PACKAGES what pytest consists of. The current folder is the project's.
import { pathToFileURL } from "node:url";

const [modules, packages] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${modules}/pyodide/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: `${modules}/pyodide/` });
for (const [place, root] of [["/project", process.cwd()], ["/packages", packages]]) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
}
process.exitCode = python.runPython(`
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "/packages")
os.chdir("/project/clients/python")
import pytest
assert sys.version_info[:2] == (3, 10), sys.version
print("Python", sys.version.split()[0])
int(pytest.main(["--capture=sys", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-m", "not sockets"]))
`);
