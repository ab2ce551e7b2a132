#!/usr/bin/env python3
"""Follows docs/use/first-rule.md as a person with three terminals, and compares what each command prints with the page.

A block of `sh` is typed, and the block of `text` after it is what it prints: `…` stands for any text in a line, and alone in a line for
any lines. A comment above a block says what the person sees: `<!-- stays -->` over a command that runs until Ctrl-C, `<!-- file NAME -->`
over the text of a file. `<!-- stop COMMAND -->` is Ctrl-C."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/use/first-rule.md"
PLACE = ROOT / "target/first-rule"
# A command that only looks is typed again until it prints what it should.
LOOKS = re.compile(r"^cargo hookonce (list|show) ", re.MULTILINE)
# Within this time a program is built, too.
START_SECONDS, LOOK_SECONDS = 600, 60


def steps(page):
    """The blocks in their order: the comment above, the language, and the text."""
    found, comment, fence, kept = [], "", None, []
    for line in page.splitlines():
        if fence is None and line.startswith("```"):
            fence, kept = line[3:], []
        elif fence is not None and line == "```":
            found.append((comment, fence, "\n".join(kept)))
            comment, fence = "", None
        elif fence is not None:
            kept.append(line)
        elif line.startswith("<!-- stop "):
            found.append((line.removeprefix("<!-- stop ").removesuffix(" -->"), "stop", ""))
        elif line.startswith("<!-- "):
            comment = line.removeprefix("<!-- ").removesuffix(" -->")
    return found


def expected(text):
    """What is printed, as a pattern. White space at the end of a line is none of it."""
    lines = []
    for line in text.split("\n"):
        if line == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*?".join(re.escape(part) for part in line.rstrip().split("…")) + r" *\n")
    return re.compile("".join(lines))


class Person:
    def __init__(self):
        self.folder, self.staying = ROOT, {}
        self.environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "80", "CARGO_TERM_QUIET": "true"}

    def types(self, commands):
        """What the commands print. Where they end is where the next ones begin."""
        place = PLACE / "place"
        typed = f"{commands}\nended=$?; pwd >{place}; exit $ended"
        ended = subprocess.run(["bash", "-c", typed], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        self.folder = pathlib.Path(place.read_text().strip())
        return ended.stdout

    def starts(self, command, text):
        """What a command that stays has printed, once it is what the page says."""
        log = PLACE / f"{len(list(PLACE.glob('*.log')))}.log"
        with open(log, "wb") as output:
            self.staying[command] = subprocess.Popen(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
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
    blocks = steps(page)
    for number, (comment, kind, text) in enumerate(blocks):
        printed = next(iter(blocks[number + 1 : number + 2]), ("", "", ""))
        wanted = printed[2] if printed[1] == "text" else ""
        if kind == "stop":
            person.stops(comment)
        elif comment.startswith("file "):
            (person.folder / comment.removeprefix("file ")).write_text(text + "\n", "utf-8")
        elif kind == "sh":
            print(f"$ {text}", flush=True)
            if comment == "stays":
                output, is_right = (seen := person.starts(text, wanted)), expected(wanted).match(seen)
            else:
                end = time.monotonic() + LOOK_SECONDS
                output = person.types(text)
                while LOOKS.search(text) and not expected(wanted).fullmatch(output) and time.monotonic() < end:
                    time.sleep(0.5)
                    output = person.types(text)
                is_right = expected(wanted).fullmatch(output)
            if not is_right:
                sys.exit(f"docs/use/first-rule.md:\n{text}\nprinted:\n{output}\nand should print:\n{wanted}")
    print(f"first rule: {sum(kind == 'sh' for _, kind, _ in blocks)} blocks typed, each printed what the page says")


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
