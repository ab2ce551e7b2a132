"""Installs the pinned SDKs below target/conformance, and asks them for verdicts."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLACE = pathlib.Path(os.environ.get("CONFORMANCE_DIR", ROOT / "target/conformance"))


def reenter_with_python_packages():
    """Runs this script again inside a virtual environment that holds the pinned packages."""
    python = PLACE / "venv/bin/python"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = PLACE / "venv/requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        PLACE.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", PLACE / "venv"], check=True)
        locked = ["--require-hashes", "--no-deps", "-r", HERE / "requirements.txt"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *locked], check=True)
        stamp.write_text(wanted)
    if pathlib.Path(sys.prefix).resolve() != (PLACE / "venv").resolve():
        os.execv(python, [str(python), *sys.argv])


def node_modules():
    """Installs the pinned npm packages; their install scripts are not run."""
    wanted = (HERE / "package-lock.json").read_text()
    # It remembers what was installed, so it is written last.
    stamp = PLACE / "installed.json"
    if not stamp.exists() or stamp.read_text() != wanted or not (PLACE / "node_modules").exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            (PLACE / name).write_text((HERE / name).read_text())
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=PLACE, check=True)
        stamp.write_text(wanted)
    return PLACE


def run_oracle(command, requests, environment):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    verdicts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"verdict"')]
    if len(verdicts) != len(requests):
        raise SystemExit(f"{command[0]} gave {len(verdicts)} verdicts for {len(requests)} requests:\n{done.stderr[-2000:]}")
    return verdicts


def oracle_verdicts(requests):
    """One verdict per request, from the npm SDK or else from the PyPI SDK."""
    slim = [{key: request[key] for key in ("provider", "method", "url", "headers", "body_base64", "secrets", "settings", "now_unix") if key in request} for request in requests]
    npm = run_oracle(["node", str(HERE / "oracles.mjs")], slim, {"CONFORMANCE_MODULES": str(node_modules())})
    pypi = run_oracle([sys.executable, str(HERE / "oracles.py")], slim, {})
    return [first if first["verdict"] is not None else second for first, second in zip(npm, pypi)]
