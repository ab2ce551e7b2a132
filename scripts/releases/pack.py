"""Packs what was built into the files of a release. The same binaries give the same bytes, whoever packs them, where and when.

usage: pack.py VERSION BUILT OUTPUT

BUILT holds a folder for each target of Rust, with its binaries and their bills of materials, and `packages` with the packages for
handlers. OUTPUT receives the files of the release. SOURCE_DATE_EPOCH is the time of every entry."""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import time
import zipfile

from template import released

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTIONS = ("webhook", "worker", "relay", "dispatcher")
# A processor of Lambda, and the target whose binaries it runs.
PROCESSORS = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}


class Platform:
    """Where the command line runs: its name in our files, what npm calls it, and what a wheel calls it."""

    def __init__(self, name, system, processor, *tags, binary="hookonce"):
        self.name, self.system, self.processor, self.tags, self.binary = name, system, processor, tags, binary


# A static program runs with the C library of any Linux: these are what pip calls them. The versions of macOS are the oldest for which
# the compiler builds.
LINUX = ("manylinux2014", "manylinux_2_17", "musllinux_1_1")
PLATFORMS = {
    "x86_64-unknown-linux-musl": Platform("linux-x86_64", "linux", "x64", *(f"{linux}_x86_64" for linux in LINUX)),
    "aarch64-unknown-linux-musl": Platform("linux-arm64", "linux", "arm64", *(f"{linux}_aarch64" for linux in LINUX)),
    "x86_64-apple-darwin": Platform("macos-x86_64", "darwin", "x64", "macosx_10_12_x86_64"),
    "aarch64-apple-darwin": Platform("macos-arm64", "darwin", "arm64", "macosx_11_0_arm64"),
    "x86_64-pc-windows-msvc": Platform("windows-x86_64", "win32", "x64", "win_amd64", binary="hookonce.exe"),
}
README = ROOT / "tools/cli/npm/README.md"
RUNS, IS_READ = 0o755, 0o644
SUMMARY = "The command line of hookonce, the webhook inbox that applies every event exactly once"
LICENSE = "Apache-2.0"


def moment():
    return int(os.environ["SOURCE_DATE_EPOCH"])


def zipped(entries):
    """Entries are (path, bytes, mode)."""
    out, when = io.BytesIO(), time.gmtime(moment())[:6]
    with zipfile.ZipFile(out, "w") as archive:
        for path, content, mode in entries:
            entry = zipfile.ZipInfo(path, when)
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | mode) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def tarred(folder, entries):
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, out, moment()) as packed, tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive:
        for path, content, mode in sorted(entries):
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), moment(), mode
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def sums(entries):
    lines = [f"{hashlib.sha256(content).hexdigest()}  {path}\n" for path, content, _ in sorted(entries)]
    return "SHA256SUMS", "".join(lines).encode(), IS_READ


def text(path, mode=IS_READ):
    return path.name, path.read_bytes(), mode


def inside(wheel):
    """The client for handlers in Python, as a function has it beside its handler."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("hookonce/")]
        return [(f"handler/{name}", archive.read(name), IS_READ) for name in names]


# What docs/run/prove-it.md starts.
ACCOUNT = "scripts/account"


def pages():
    """The pages, and what they link to, each where it is in the tree: so no link of a page is dead, and its commands find their files."""
    found = {ROOT / name for name in ("CHANGELOG.md", "SECURITY.md")}
    # All of it: a command on a page names some of its files, without a link.
    names = ["git", "ls-files", "deploy", ACCOUNT, "scripts/accounts"]
    listed = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found |= {ROOT / name for name in listed}
    for page in (ROOT / "docs").rglob("*.md"):
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        found |= {page, *((page.parent / link).resolve() for link in links)}
    files = [(path.relative_to(ROOT).as_posix(), path) for path in sorted(found) if path.is_file()]
    return [(name, path.read_bytes(), RUNS if name == ACCOUNT else IS_READ) for name, path in files]


def cloud(version, processor, built, packages):
    """Everything that an account needs: template, code, and the script that brings both there."""
    binaries = built / PROCESSORS[processor]
    template = json.dumps(released(processor, version), indent=1)
    entries = [(f"{name}.zip", zipped([("bootstrap", (binaries / f"hookonce-{name}").read_bytes(), RUNS)]), IS_READ) for name in FUNCTIONS]
    entries += [(f"sbom/{name}.cdx.json", (binaries / f"{name}.cdx.json").read_bytes(), IS_READ) for name in FUNCTIONS]
    entries += inside(packages / f"hookonce-{version}-py3-none-any.whl")
    handler = (ROOT / "deploy/handler.yaml").read_text("utf-8").replace("Architectures: [arm64]", f"Architectures: [{processor}]")
    entries += [("template.json", template.encode(), IS_READ), ("handler.yaml", handler.encode(), IS_READ), text(ROOT / "LICENSE")]
    entries += [text(ROOT / "deploy" / name) for name in ("bucket.yaml", "stack-policy.json")]
    # Where the alarms, the codes and `doctor` lead.
    entries += pages()
    entries.append(text(ROOT / "deploy/deploy.sh", RUNS))
    return tarred(f"hookonce-{version}-aws-{processor}", [*entries, sums(entries)])


def command_line(version, platform, folder_of_target):
    """The command line alone."""
    folder = f"hookonce-{version}-{platform.name}"
    entries = [text(folder_of_target / platform.binary, RUNS), text(folder_of_target / "hookonce.cdx.json"), text(ROOT / "LICENSE")]
    if platform.system == "win32":
        return f"{folder}.zip", zipped([(f"{folder}/{path}", content, mode) for path, content, mode in entries])
    return f"{folder}.tar.gz", tarred(folder, entries)


def npm(version, name, fields, entries):
    """A package as npm publishes it. It runs nothing when it is installed."""
    about = {"name": name, "version": version, "description": SUMMARY, "license": LICENSE, **fields}
    described = ("package.json", f"{json.dumps(about, indent=2)}\n".encode(), IS_READ)
    return f"{name}-{version}.tgz", tarred("package", [described, *entries, text(ROOT / "LICENSE"), text(README)])


def npm_of(version, platform, folder_of_target):
    """The package of one platform."""
    name, fields = f"hookonce-cli-{platform.system}-{platform.processor}", {"os": [platform.system], "cpu": [platform.processor]}
    return npm(version, name, fields, [text(folder_of_target / platform.binary, RUNS)])


def npm_of_all(version, platforms):
    """The package that people name. It comes with the one of their platform."""
    others = {f"hookonce-cli-{platform.system}-{platform.processor}": version for platform in platforms}
    launcher = ("launcher.mjs", (ROOT / "tools/cli/npm/launcher.mjs").read_bytes(), RUNS)
    fields = {"type": "module", "bin": {"hookonce": "launcher.mjs"}, "engines": {"node": ">=20"}, "optionalDependencies": others}
    return npm(version, "hookonce-cli", fields, [launcher])


def wheel(version, platform, folder_of_target):
    """The command line as a package for pip: https://packaging.python.org/en/latest/specifications/binary-distribution-format/"""
    name = f"hookonce_cli-{version}"
    metadata = ("Metadata-Version: 2.4", "Name: hookonce-cli", f"Version: {version}", f"Summary: {SUMMARY}", "Requires-Python: >=3.8",
                f"License-Expression: {LICENSE}", "License-File: LICENSE", "Description-Content-Type: text/markdown", "",
                *README.read_text("utf-8").splitlines())
    about = ("Wheel-Version: 1.0", "Generator: hookonce", "Root-Is-Purelib: false", *(f"Tag: py3-none-{tag}" for tag in platform.tags))
    entries = [(f"{name}.data/scripts/{platform.binary}", (folder_of_target / platform.binary).read_bytes(), RUNS),
               (f"{name}.dist-info/licenses/LICENSE", (ROOT / "LICENSE").read_bytes(), IS_READ)]
    for file, lines in (("METADATA", metadata), ("WHEEL", about)):
        entries.append((f"{name}.dist-info/{file}", "".join(f"{line}\n" for line in lines).encode(), IS_READ))
    record = f"{name}.dist-info/RECORD"
    hashes = ((path, base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(), len(content)) for path, content, _ in entries)
    recorded = "".join(f"{path},sha256={digest},{length}\n" for path, digest, length in hashes) + f"{record},,\n"
    return f"{name}-py3-none-{'.'.join(platform.tags)}.whl", zipped([*entries, (record, recorded.encode(), IS_READ)])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    version, built, output = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    packages = built / "packages"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    files = {path.name: path.read_bytes() for path in packages.iterdir()}
    for processor, target in PROCESSORS.items():
        if (built / target).is_dir():
            files[f"hookonce-{version}-aws-{processor}.tar.gz"] = cloud(version, processor, built, packages)
    here = {platform: built / target for target, platform in PLATFORMS.items() if (built / target).is_dir()}
    for platform, folder in here.items():
        files.update([command_line(version, platform, folder), npm_of(version, platform, folder), wheel(version, platform, folder)])
    files.update([npm_of_all(version, here)])
    for name, content in [*files.items(), sums([(name, content, IS_READ) for name, content in files.items()])[:2]]:
        (output / name).write_bytes(content)
        print(f"{len(content):>10}  {name}")


if __name__ == "__main__":
    main()
