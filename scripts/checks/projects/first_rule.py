#!/usr/bin/env python3
"""Follows docs/use/first-rule.md as a person with three terminals, and compares what each command prints with the page.

Above a block, a comment says what the person sees: `<!-- stays -->` over a command that runs until Ctrl-C, `<!-- file NAME -->` over the
text of a file. `<!-- stop COMMAND -->` is Ctrl-C."""

import contextlib
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
import tty

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "scripts/releases"))
from page import WIDTH, agrees, expected, steps  # noqa: E402

PAGE = ROOT / "docs/use/first-rule.md"
PLACE = ROOT / "target/first-rule"
# A command that only looks is typed again until it prints what it should.
LOOKS = re.compile(r"^cargo hookonce (list|show) ", re.MULTILINE)
# Within this time a program is built, too.
START_SECONDS, LOOK_SECONDS = 600, 60


class Person:
    def __init__(self):
        self.folder, self.staying = ROOT, {}
        self.environment = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": str(WIDTH), "CARGO_TERM_QUIET": "true"}

    def types(self, commands):
        """What the commands print in a terminal. Where they end is where the next ones begin."""
        place = PLACE / "place"
        typed = f"{commands}\nended=$?; pwd >{place}; exit $ended"
        terminal, inside = pty.openpty()
        tty.setraw(inside)
        termios.tcsetwinsize(inside, (24, WIDTH))
        process = subprocess.Popen(["bash", "-c", typed], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=inside, stderr=inside)
        os.close(inside)
        printed = b""
        # A terminal that nobody has open any more cannot be read.
        with contextlib.suppress(OSError):
            while part := os.read(terminal, 65536):
                printed += part
        os.close(terminal)
        process.wait()
        self.folder = pathlib.Path(place.read_text().strip())
        return printed.decode().replace("\r", "")

    def starts(self, command, text):
        """What a command that stays has printed, once it is what the page says."""
        log = PLACE / f"{len(list(PLACE.glob('*.log')))}.log"
        with open(log, "wb") as output:
            self.staying[command] = subprocess.Popen(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
                # Where this program runs in the background of a shell, its children would ignore Ctrl-C, too.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        end = time.monotonic() + START_SECONDS
        while not expected(text).match(log.read_text()) and self.staying[command].poll() is None and time.monotonic() < end:
            time.sleep(0.2)
        return log.read_text()

    def stops(self, command):
        process = self.staying.pop(command)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


def follow(person, page):
    """Does what the page says, and ends with what is wrong."""
    said, typed = "", 0
    for kind, text, *rest in steps(page):
        if kind == "act":
            said = text
            if said.startswith("stop "):
                person.stops(said.removeprefix("stop "))
        elif kind == "file" and said.startswith("file "):
            (person.folder / said.removeprefix("file ")).write_text(text + "\n", "utf-8")
        elif kind == "sh":
            print(f"$ {text}", flush=True)
            typed, wanted = typed + 1, rest[0]
            if said == "stays":
                printed = person.starts(text, wanted)
                is_right = expected(wanted).match(printed) is not None
            else:
                end = time.monotonic() + LOOK_SECONDS
                printed = person.types(text)
                while LOOKS.search(text) and not agrees(wanted, printed) and time.monotonic() < end:
                    time.sleep(0.5)
                    printed = person.types(text)
                is_right = agrees(wanted, printed)
            if not is_right:
                sys.exit(f"docs/use/first-rule.md:\n{text}\nprinted:\n{printed}\nand should print:\n{wanted}")
        if kind != "act":
            said = ""
    print(f"first rule: {typed} blocks typed, each printed what the page says")


def main():
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    person = Person()
    try:
        # Nothing is written outside of this checkout.
        follow(person, PAGE.read_text("utf-8").replace(" ../shop", " target/first-rule/shop"))
    finally:
        for command in list(person.staying):
            person.stops(command)


if __name__ == "__main__":
    main()
