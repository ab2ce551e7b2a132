"""Runs the code of docs/use/submit.md against a stack of its own, with the libraries that the page names.

usage: check.py FOLDER LANGUAGE=COMMAND...

Each command runs in the folder, where the code of its language is written before. It submits one key three times: at first
through a proxy that loses the first answer and breaks the second one off, then twice more. So the code's own repeats must find
its own delivery."""

import http.server
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOOKONCE = ROOT / "target/debug/hookonce"
# Where the code of a language is written, below the folder.
FILES = {"python": "submit.py", "js": "submit.mjs", "rust": "rust/src/main.rs", "go": "go/main.go", "java": "Submit.java"}
PATIENCE_SECONDS = 120


class LosesAnswers(http.server.BaseHTTPRequestHandler):
    """Passes each request on. Drops the first 2xx of each key, and breaks the second one off."""

    gateway = ""
    answered = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        status, answer = post(self.gateway + self.path, body, kept)
        key = self.headers["webhook-id"]
        earlier = self.answered.get(key, 0)
        self.answered[key] = earlier + (status == 200)
        self.close_connection = earlier < 2
        if status == 200 and earlier == 0:
            return
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer[: len(answer) // 2] if status == 200 and earlier == 1 else answer)

    def log_message(self, *_):
        pass


def post(url, body, headers):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, body, headers), timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def hookonce(folder, *arguments):
    return subprocess.run([HOOKONCE, *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def code_of(page, language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{len(found)} blocks of {language}"
    return found[0]


def check(folder, language, command, urls, secret):
    """The words that the code says, and what the record says of it."""
    file, key = folder / FILES[language], f"order-{language}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(code_of((ROOT / "docs/use/submit.md").read_text(), language))
    words = []
    for url in urls:
        variables = {**os.environ, "HOOKONCE_URL": url, "HOOKONCE_SECRET": secret, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        ran = subprocess.run([*shlex.split(command), key], cwd=folder, env=variables, stdout=subprocess.PIPE, text=True, check=True)
        words.append(ran.stdout.strip())
    record = json.loads(hookonce(folder, "show", "jobs", key, "--json"))
    body = json.loads(hookonce(folder, "show", "jobs", key, "--body"))
    expected = {"type": "charge.requested", "data": {"order": 1042, "amount": "49.00"}}
    assert words == ["duplicate"] * 3, f"{language}: {words}"
    assert record["duplicates"] == 4, f"{language}: {record}"
    assert body == expected, f"{language}: {body}"
    print(f"{language}: one answer was lost and one broke off; stored once, 4 duplicates")


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    data, state = folder / ".hookonce", folder / ".hookonce/stack.json"
    subprocess.run(["rm", "-rf", data], check=True)
    secret = hookonce(folder, "endpoint", "add", "jobs", "--provider", "standard_webhooks").strip()
    stack = subprocess.Popen([HOOKONCE, "dev", "--port", "0"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not state.exists():
            assert stack.poll() is None and time.monotonic() < until, "the stack does not start"
            time.sleep(0.1)
        gateway = json.loads(state.read_text())["url"]
        LosesAnswers.gateway = gateway
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LosesAnswers)
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        lossy = f"http://127.0.0.1:{proxy.server_port}/webhooks/jobs"
        for argument in sys.argv[2:]:
            language, command = argument.split("=", 1)
            check(folder, language, command, [lossy, lossy, f"{gateway}/webhooks/jobs"], secret)
    finally:
        stack.terminate()
        stack.wait()


main()
