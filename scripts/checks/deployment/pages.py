"""Runs every `aws` command of the documentation, in a block or in a sentence, as it stands there, on a stack that the mock of
AWS has. expected.py says what each must print or change. Then breaks the pages: each break must be found.

`AWS_ONE` names a command line of version 1, which runs all but what only version 2 knows. `AWS_TWO` names one of version 2, or
is empty."""

import concurrent.futures
import functools
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "mock", "AWS_SECRET_ACCESS_KEY": "mock", "AWS_DEFAULT_REGION": "eu-central-1"}
os.environ.update(CREDENTIALS)

import calls  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from expected import BREAKS, NOT_ON_THE_MOCK, PLACEHOLDERS, ROWS, UNSEEN, WORDS, Row, event_file, prepare, variables  # noqa: E402
from mock import deployed, verdict  # noqa: E402

# It prints a line for each request.
logging.getLogger("werkzeug").setLevel(logging.ERROR)

# A command of AWS's command line, or of the function with which a page reads an output.
COMMAND = re.compile(r"(?<![\w./@:-])aws (?=[a-z-])|^\w+=\$\(output ", re.MULTILINE)
CAPITALS = re.compile(r"(?<![\w${%.\[])[A-Z][A-Z_]*[A-Z](?!\w)")
END = "\0\n"
# The runbook has nearly half of the commands.
ALONE = "docs/run/runbook.md"
# `scripts/check release` types these.
ELSEWHERE = ("docs/run/fifteen-minutes.md", "docs/run/first-night.md")
WRAPPER = '#!/bin/sh\nAWS_ENDPOINT_URL="$MOCK" exec timeout 120 "$AWS_RUN" --endpoint-url "$MOCK" "$@" $AWS_MORE\n'


@functools.cache
def commands(page):
    """The commands of a page in its order: whole statements of its blocks, and spans of its sentences."""
    found, fence, kept = [], None, []
    for line in [*page.splitlines(), "```"]:
        is_fence = line.strip().startswith("```")
        if is_fence and fence is None:
            found += spans("\n".join(kept))
        elif is_fence:
            found += statements(textwrap.dedent("\n".join(kept)))
        else:
            kept.append(line)
        if is_fence:
            fence, kept = line if fence is None else None, []
    return [command for command in found if COMMAND.search(command)]


def spans(prose):
    return [" ".join(span.split()) for span in re.findall(r"`(aws [^`]*)`", prose)]


def statements(block):
    """A block, cut where a shell would run what it has read."""
    if not COMMAND.search(block):
        return []
    found, kept = [], []
    for line in block.splitlines():
        kept.append(line)
        text = "\n".join(kept)
        if not line.endswith("\\") and is_whole(text):
            found.append(text)
            kept = []
    return [*found, *["\n".join(kept)][:len(kept)]]


@functools.cache
def is_whole(text):
    # It warns of a document that does not end.
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    return read.returncode == 0 and not read.stderr


class Session:
    """A shell in which the commands of one page run one after the other. It ends with the first one that fails."""

    def __init__(self, folder, stack, page):
        self.stack, self.page, self.has_ended = stack, page, False
        # Nothing of the account that this machine may use.
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name in CREDENTIALS}
        environment = {**own, **variables(stack), "HOME": folder, "PATH": f"{folder}:{own['PATH']}", "AWS_PAGER": ""}
        self.shell = subprocess.Popen(["bash", "--norc"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, encoding="utf-8")
        self.type_in("set -euo pipefail")

    def type_in(self, text):
        """What the text prints."""
        self.shell.stdin.write(f"{{\n{text}\n}} </dev/null\nprintf '\\n\\0\\n'\n")
        self.shell.stdin.flush()
        printed = []
        for line in self.shell.stdout:
            if line == END:
                return "".join(printed)[:-1]
            printed.append(line)
        self.has_ended = True
        return "".join(printed)

    def end(self):
        self.shell.stdin.close()
        self.shell.wait()
        self.shell.stdout.close()


def row_of(command):
    return next((words for words, row in ROWS.items() if (words == command if row.mention else words in command)), None)


def filled(stack, text):
    """The text with values in place of its placeholders, and the words in capitals for which there is none."""
    strange = []

    def value(match):
        word = match.group()
        if word in PLACEHOLDERS:
            return PLACEHOLDERS[word](stack)
        if word not in WORDS:
            strange.append(word)
        return word

    return CAPITALS.sub(value, text), strange


def fault(session, command):
    """What is wrong with a command, or nothing."""
    words = row_of(command)
    if words is None:
        return "expected.py has no row for it"
    row = ROWS[words]
    cli = os.environ["AWS_TWO" if row.two else "AWS_ONE"]
    if row.mention or not cli:
        return None
    if not is_whole(command):
        return "a shell cannot read it"
    typed, strange = filled(session.stack, command)
    if strange:
        return f"nothing is known for {', '.join(strange)}"
    more = "--generate-cli-skeleton output" if row.cannot else ""
    key = calls.key_of(row.who, f"{session.page}: {' '.join(words.split())}")
    session.type_in(f"export AWS_ACCESS_KEY_ID='{key}' AWS_RUN='{cli}' AWS_MORE='{more}'")
    printed = session.type_in(typed)
    if session.has_ended:
        return f"it fails:\n{printed}"
    wanted = filled(session.stack, row.prints)[0]
    if wanted not in printed:
        return f"no {wanted!r} in:\n{printed}"
    if "--filter-pattern" in command and UNSEEN in printed:
        return f"its pattern lets through:\n{printed}"
    return None if row.so is None or row.so(session.stack) else "the stack is not as it should be after it"


def follow(folder, stack, pages):
    """Runs the commands of these pages, each page in a shell of its own."""
    found = []
    for name, page in pages.items():
        session = Session(folder, stack, name)
        for command in commands(page):
            wrong = fault(session, command)
            if wrong:
                found.append(f"{name}: {command}: {wrong}")
            if session.has_ended:
                found.append(f"{name}: what comes after it was not run")
                break
        session.end()
    return found


def unused(pages):
    """Rows that no command of any page has."""
    used = {row_of(command) for page in pages.values() for command in commands(page)}
    return [f"expected.py has a row for {words!r}, and no page has such a command" for words in ROWS if words not in used]


def missed(folder, stack, pages, planted):
    """Runs what a break has changed on its page."""
    name, old, new, expected, _ = planted
    if old not in pages[name]:
        return [f"{name} has no {old!r}"]
    known, broken = commands(pages[name]), {**pages, name: pages[name].replace(old, new, 1)}
    found = unused(broken)
    for command in commands(broken[name]):
        if command not in known:
            session = Session(folder, stack, name)
            found.append(fault(session, command) or "")
            session.end()
    return [] if any(expected in one for one in found) else [f"{name}: nothing is found after {old!r} became {new!r}: {found}"]


def look(stack):
    paths = [*pathlib.Path(".").glob("*.md"), *pathlib.Path("docs").rglob("*.md")]
    pages = {str(path): path.read_text("utf-8") for path in sorted(paths)}
    pages = {name: page for name, page in pages.items() if name not in ELSEWHERE and commands(page)}
    rest = {name: page for name, page in pages.items() if name != ALONE}
    prepare(stack)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        os.environ["MOCK"] = f"http://{host}:{port}"
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            place(folder)
            runs = pool.map(lambda some: follow(folder, stack, some), [{ALONE: pages[ALONE]}, rest])
            found = [*unused(pages), *(one for run in runs for one in run)]
            calls.write()
            if not found:
                found = [one for some in pool.map(lambda planted: missed(folder, stack, pages, planted), breaks()) for one in some]
            return [command for page in pages.values() for command in commands(page)], found
    finally:
        server.stop()


def breaks():
    return [planted for planted in BREAKS if os.environ["AWS_TWO"] or not planted.two]


def place(folder):
    """What the commands find in the folder in which they run."""
    os.symlink(os.path.abspath("deploy"), os.path.join(folder, "deploy"))
    # A release, as far as the pages read it: the unpacked archive.
    release = pathlib.Path(folder, "hookonce")
    release.mkdir()
    (release / "stack-policy.json").symlink_to(os.path.abspath("deploy/stack-policy.json"))
    (release / "webhook.zip").write_bytes(b"code")
    code = {"Type": "AWS::Lambda::Function", "Properties": {"Code": "webhook.zip"}}
    (release / "template.json").write_text(json.dumps({"Resources": {"WebhookFunction": code}}), "utf-8")
    pathlib.Path(folder, "event.json").write_text(event_file(), "utf-8")
    # What `hookonce dev` leaves.
    laptop = pathlib.Path(folder, ".hookonce")
    laptop.mkdir()
    (laptop / "functions.env").write_text("AWS_DEFAULT_REGION=eu-central-1\n", "utf-8")
    wrapper = pathlib.Path(folder, "aws")
    wrapper.write_text(WRAPPER, "utf-8")
    wrapper.chmod(0o755)


def main():
    with open("template.yaml", encoding="utf-8") as file:
        on_pages, found = deployed(file.read(), look)
    read, left_out = print_reasons(on_pages)
    counts = {"run": len(on_pages) - read - left_out, "words_checked": read, "not_run": left_out, "broken": len(breaks())}
    return verdict("pages", found, aws_commands=len(on_pages), **counts)


def print_reasons(on_pages):
    """Prints of which commands only the words were checked, and which were not run at all. Returns how many those are."""
    read, left_out = {}, {}
    for command in on_pages:
        row = ROWS.get(row_of(command), Row())
        if row.two and not os.environ["AWS_TWO"]:
            left_out.setdefault("only version 2 of the command line knows it, and this machine has none", []).append(command)
        elif row.mention:
            left_out.setdefault(row.mention, []).append(command)
        elif row.cannot:
            read.setdefault(row.cannot, []).append(command)
    for state, reasons in (("NOT run, only words and query checked", read), ("NOT run", left_out)):
        for reason, some in reasons.items():
            print(f"{state}, because {reason}: {'; '.join(command.splitlines()[0] for command in some)}")
    print(f"NOT checked: {NOT_ON_THE_MOCK}")
    return [sum(map(len, reasons.values())) for reasons in (read, left_out)]


if __name__ == "__main__":
    sys.exit(main())
