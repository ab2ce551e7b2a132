"""A callee on this machine: it does the work of each key once. `python3 outside/receiver.py PORT`, by default 9000."""

import http.server
import json
import pathlib
import sys

WORKS = pathlib.Path("target/works.jsonl")


def known() -> set[str]:
    return {json.loads(line)["key"] for line in WORKS.read_text().splitlines()} if WORKS.exists() else set()


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        key, event = self.headers.get("hookonce-key"), self.headers.get("hookonce-event", "")
        if key is None:
            self.answer(400, "no key")
        elif event.startswith("in#hookonce-test#"):
            self.answer(200, "a probe")
        elif key in known():
            self.answer(200, "done before")
        else:
            # The key and the work are one line, so a crash leaves both or neither.
            with WORKS.open("a") as works:
                works.write(json.dumps({"key": key, "work": body}) + "\n")
            self.answer(200, "done")

    def answer(self, status: int, word: str) -> None:
        print(f"{word}: {self.headers.get('hookonce-event', '-')}", flush=True)
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *parts: object) -> None:
        pass


WORKS.parent.mkdir(exist_ok=True)
port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
try:
    server = http.server.HTTPServer(("127.0.0.1", port), Receiver)
except OSError as error:
    sys.exit(f"port {port} cannot be used: {error.strerror}. Is another receiver running?")
print(f"http://127.0.0.1:{server.server_port}/in", flush=True)
server.serve_forever()
