"""Storms receivers that are right or have one bug each: every bug falls in its own scenario and, but for `ALSO`, in no other.

usage: check.py HOOKONCE NODE MODULES [NAME...]

NODE runs the receivers in Express, which MODULES holds; this Python runs those in Flask. NAME limits the receivers, such as
flask/select.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SECRET = "pdl_ntfset_01hstorm0000000000000000000_storm0storm0storm0storm0storm0st"
# What each receiver must fall in: its own scenario and no other. `None`: it cannot be judged.
EXPECTED = {
    "express/right": set(),
    "flask/right": set(),
    # Select, then insert.
    "express/select": {"race"},
    "flask/select": {"race"},
    # Marked after the work.
    "express/after": {"restart"},
    "flask/after": {"restart"},
    # The marker is cleared inside the transaction.
    "express/cleared": {"cut"},
    "flask/cleared": {"cut"},
    # The body is parsed and printed again.
    "express/printed": {"raw"},
    "flask/printed": {"raw"},
    # Others, so that each scenario finds something.
    "express/forgotten": {"given-up"},
    "express/recent": {"later"},
    "express/memory": {"restart"},
    "express/hash": {"rendering"},
    "express/unsigned": {"unsigned"},
    "express/stale": {"stale"},
    # Other providers: one that sends batches, and one with a weaker scheme.
    "express/right/meta_whatsapp": set(),
    "express/delivery/meta_whatsapp": {"regrouped"},
    "express/right/github": set(),
    "express/weaker/github": {"weaker"},
    # 200, and nothing done.
    "express/nothing": None,
    "flask/nothing": None,
}
# On a slow machine the sender gives up, and sends again, while the first still stands between select and insert.
ALSO = {"express/select": {"given-up"}, "flask/select": {"given-up"}}
SCENARIOS = ["copies", "race", "given-up", "cut", "later", "restart", "rendering", "regrouped", "secret", "byte", "unsigned",
             "weaker", "stale", "raw"]
# Those that the catalog does not know of these providers.
NOT_SENT = {
    "paddle_billing": {"regrouped", "weaker"},
    "meta_whatsapp": {"given-up", "rendering", "weaker", "stale"},
    "github": {"race", "given-up", "rendering", "regrouped", "stale"},
}
# How many run at once: they mostly wait.
TOGETHER = 5
RUN_SECONDS_MAX = 300


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def storm(hookonce, *arguments, secret):
    started = time.monotonic()
    command = [hookonce, "storm", *arguments]
    process = subprocess.run(command, input=secret, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    assert secret not in process.stdout + process.stderr, f"{command}: the secret is printed"
    return process, time.monotonic() - started


def receiver(name, hookonce, node, modules):
    framework, kind, provider = (*name.split("/"), "paddle_billing")[:3]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="storm-"))
    try:
        port, database = free_port(), folder / "app.db"
        if framework == "express":
            program = [node, "--no-warnings", str(modules / "receiver.mjs"), provider]
        else:
            program = [sys.executable, str(HERE / "receiver.py")]
        run = f"SECRET={SECRET} exec {shlex.join([*program, kind, str(port), str(database)])}"
        show = [sys.executable, str(HERE / "show.py"), str(database)]
        url = f"http://127.0.0.1:{port}/webhooks"
        process, seconds = storm(
            hookonce, url, "--provider", provider, "--secret", "-", "--run", run, "--json",
            "--html", str(folder / "page.html"), "--", *show, secret=SECRET)
        if process.returncode == 3 and "cannot judge" in process.stderr:
            return None, {}, seconds
        assert process.returncode in (0, 1), f"{name}: {process.stderr}"
        report = json.loads(process.stdout)
        page = (folder / "page.html").read_text()
        assert SECRET not in page and report["summary"] in page
        fallen = {part["scenario"] for part in report["scenarios"] if not part["is_good"]}
        assert process.returncode == (1 if fallen else 0), f"{name}: exit {process.returncode}"
        assert {part["scenario"] for part in report["not_sent"]} == NOT_SENT[provider], f"{name}: {report['not_sent']}"
        return fallen, report, seconds
    finally:
        shutil.rmtree(folder)


def line(name, fallen, report, seconds):
    if fallen is None:
        return f"{name:30} cannot be judged  {seconds:5.1f} s"
    missing = {part["scenario"] for part in report["not_sent"]}
    mark = lambda scenario: "x" if scenario in fallen else " " if scenario in missing else "."  # noqa: E731
    marks = " ".join(mark(scenario).center(len(scenario)) for scenario in SCENARIOS)
    again = "; ".join(part["shown_again"] for part in report["scenarios"] if part["shown_again"])
    said = f"{report['summary']}{' (' + again + ')' if again else ''}" if fallen else ""
    return f"{name:30} {marks} {report['requests']:5}  {seconds:5.1f} s  {said}".rstrip()


def ours(hookonce):
    """The inbox itself, with each event forwarded to the sink."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="storm-"))
    port, sink = free_port(), free_port()
    run = subprocess.Popen(
        [hookonce, "dev", "--port", str(port), "--forward", f"http://127.0.0.1:{sink}"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "RUST_LOG": "error"})
    try:
        deadline = time.monotonic() + 60
        while not (folder / ".hookonce/stack.json").exists():
            assert time.monotonic() < deadline, "dev does not start"
            time.sleep(0.05)
        shown = subprocess.run([hookonce, "endpoint", "show", "stripe", "--reveal", "--json"],
                               cwd=folder, capture_output=True, text=True, check=True)
        secret, = json.loads(shown.stdout)["secrets"]
        url = f"http://127.0.0.1:{port}/webhooks/stripe"
        process, seconds = storm(hookonce, url, "--provider", "stripe", "--secret", "-", "--sink", str(sink), "--json",
                                 secret=secret)
        assert process.returncode in (0, 1), process.stderr
        report = json.loads(process.stdout)
        return {part["scenario"] for part in report["scenarios"] if not part["is_good"]}, report, seconds
    finally:
        run.terminate()
        run.wait()
        shutil.rmtree(folder)


def main():
    hookonce, node, modules = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    wanted = sys.argv[4:] or [*EXPECTED, "ours"]
    print(f"{'':30} {' '.join(SCENARIOS)}  sent")
    wrong = []
    longest = 0.0
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        jobs = {name: pool.submit(receiver, name, hookonce, node, modules) for name in wanted if name != "ours"}
        for name, job in jobs.items():
            fallen, report, seconds = job.result()
            longest = max(longest, seconds)
            print(line(name, fallen, report, seconds), flush=True)
            must = EXPECTED[name]
            if fallen is None or must is None:
                fits = fallen is must
            else:
                fits = must <= fallen <= must | ALSO.get(name, set())
            if not fits:
                wrong.append(f"{name}: fell in {fallen}, expected {must}")
    if "ours" in wanted:
        fallen, report, seconds = ours(hookonce)
        print(f"{'ours':30} {report['summary']}, {report['requests']} requests, {seconds:5.1f} s")
        if fallen:
            wrong.append(f"ours: fell in {fallen}")
    for finding in wrong:
        print(finding)
    print(json.dumps({"part": "storm", "receivers": len(wanted), "longest_seconds": round(longest), "violations": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
