"""Types the blocks of a page into a shell, in their order, and compares what they print with the block below each.

A block of `sh` is typed; the block of `text` after it is what it prints, and without one it prints nothing. `…` stands for any
text in a line, and alone in a line for any lines. A sentence with a `…` may wrap, because what stands there, such as the path of a
folder, is longer on another machine. It ends with 0, or as a comment before it says: `<!-- exits with 1 -->`. Any other
comment tells what somebody else does at that moment: `<!-- github sends a -->`. Any other block is the text of a file."""

import os
import pathlib
import pty
import re
import select
import subprocess
import termios
import time
import tty

WIDTH = 80
# A command that only looks is repeated until it prints what it should.
LOOKS = re.compile(r"^hookonce (list|show|status) ")
PATIENCE_SECONDS, BLOCK_SECONDS = 30, 300
END = re.compile(rb"\0(\d+)\n$")
EXITS = re.compile(r"<!-- exits with (\d+) -->")


def steps(page):
    """What the page has, in its order: ("sh", commands, what they print, their status), ("act", words), ("section", heading), ("file", text)."""
    found, kept, fence, status = [], [], None, 0
    for line in page.splitlines():
        if fence is None and line.startswith("```"):
            fence, kept = line[3:], []
        elif fence is not None and line == "```":
            if fence == "sh":
                found.append(["sh", "\n".join(kept), "", status])
                status = 0
            elif fence == "text" and found and found[-1][0] == "sh":
                found[-1][2] = "\n".join(kept)
            else:
                found.append(["file", "\n".join(kept)])
            fence = None
        elif fence is not None:
            kept.append(line)
        elif EXITS.match(line):
            status = int(EXITS.match(line)[1])
        elif line.startswith("<!-- "):
            found.append(["act", line.removeprefix("<!-- ").removesuffix(" -->")])
        elif line.startswith("#"):
            found.append(["section", line.lstrip("# ")])
    return found


def expected(text):
    """What is printed, as a pattern. White space at the end of a line is none of it."""
    lines = []
    for line in text.split("\n") if text else []:
        if line == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            pattern = ".*?".join(re.escape(part) for part in line.rstrip().split("…"))
            # Two spaces in a row are the columns of a table, which does not wrap.
            if "…" in line and "  " not in line:
                pattern = pattern.replace(r"\ ", r"(?: |\n +)")
            lines.append(pattern + r" *\n")
    return re.compile("".join(lines))


def agrees(text, printed):
    return expected(text).fullmatch("".join(f"{line.rstrip()}\n" for line in printed.splitlines())) is not None


class Shell:
    """A shell with a terminal, as a person has one, and nothing of this machine but what is given."""

    def __init__(self, folder, environment):
        self.folder = pathlib.Path(folder)
        # Of a shell that was here before.
        (self.folder / ".stop").unlink(missing_ok=True)
        self.terminal, inside = pty.openpty()
        tty.setraw(inside)
        attributes = termios.tcgetattr(inside)
        attributes[3] |= termios.ICANON
        termios.tcsetattr(inside, termios.TCSANOW, attributes)
        termios.tcsetwinsize(inside, (24, WIDTH))
        self.answers = []
        # `setsid --ctty` makes the terminal that of the shell, so that a question for a secret is asked there.
        self.shell = subprocess.Popen(["/usr/bin/setsid", "--ctty", "/bin/bash", "--norc", "--noprofile", "-c", TYPED], cwd=folder,
                                      env=environment, stdin=inside, stdout=inside, stderr=inside, pass_fds=[])
        os.close(inside)

    def type_in(self, commands):
        """What the commands print, and their status."""
        (self.folder / ".typed").write_text(commands + "\n", "utf-8")
        (self.folder / ".next").touch()
        printed, end = b"", time.monotonic() + BLOCK_SECONDS
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                printed += os.read(self.terminal, 65536)
            elif self.answers and printed.rstrip().endswith(b":") and not END.search(printed):
                os.write(self.terminal, self.answers.pop(0).encode() + b"\n")
                printed += b"\n"
            found = END.search(printed)
            if found:
                return printed[:found.start()].decode().replace("\r", ""), int(found[1])
        return printed.decode(errors="replace"), -1

    def end(self):
        (self.folder / ".stop").touch()
        self.shell.wait()
        os.close(self.terminal)


# The shell waits for a file, runs it with the terminal as its input, and prints its status, or that of the last of its commands that
# failed. What fails within a subshell or before a pipe is not seen.
TYPED = r"""
here=$PWD
while [ ! -e "$here/.stop" ]; do
    if [ -e "$here/.next" ]; then
        rm "$here/.next"
        failed=0
        trap 'failed=$?' ERR
        . "$here/.typed"
        status=$?
        trap - ERR
        printf '\0%d\n' "$((status ? status : failed))"
    else
        sleep 0.05
    fi
done
"""


def follow(name, page, shell, act):
    """Types the blocks of a page until one prints something else. What is wrong, how many there were, and the seconds of each section."""
    wrong, typed, durations, section = [], 0, {}, name
    for kind, *step in steps(page):
        if kind == "section":
            section = step[0]
        elif kind == "act":
            act(shell, step[0])
        elif kind == "sh":
            commands, text, wanted = step
            begun = time.monotonic()
            printed, status = shell.type_in(commands)
            while LOOKS.match(commands) and not (agrees(text, printed) and status == wanted) and time.monotonic() < begun + PATIENCE_SECONDS:
                time.sleep(0.5)
                printed, status = shell.type_in(commands)
            durations[section] = durations.get(section, 0) + time.monotonic() - begun
            typed += 1
            if not agrees(text, printed) or status != wanted:
                wrong.append(f"{name}: {section}:\n{commands}\nprinted (status {status}):\n{printed}\nand should print (status {wanted}):\n{text}")
                break
    return wrong, typed, durations


# Pages of one block, and what of each must be found.
BREAKS = {
    "```sh\necho it\nfalse\n```\n```text\nit\n```\n": "should print (status 0)",
    "```sh\nfalse\necho it\n```\n```text\nit\n```\n": "should print (status 0)",
    "```sh\nls /nowhere | cat\nls /nowhere\necho it\n```\n```text\n…\nit\n```\n": "should print (status 0)",
    "<!-- exits with 1 -->\n\n```sh\necho it\n```\n```text\nit\n```\n": "should print (status 1)",
    "```sh\necho it\n```\n```text\nsomething else\n```\n": "should print (status 0):\nsomething else",
    "<!-- exits with 1 -->\n\n```sh\necho it\nfalse\n```\n```text\nit\n```\n": "",
    "```sh\nprintf 'it is in /a\\n  longer place\\n'\n```\n```text\nit is in … longer place\n```\n": "",
    "```sh\nprintf 'it is in /a\\n  longer place\\n'\n```\n```text\nit is in /a longer place\n```\n": "should print (status 0)",
    "```sh\nprintf 'it  /a\\n  place\\n'\n```\n```text\nit  … place\n```\n": "should print (status 0)",
}


def breaks(folder, environment):
    """Types each of these. What was not found, and how many there are."""
    shell, missed = Shell(folder, environment), []
    for page, says in BREAKS.items():
        wrong, _, _ = follow("a broken page", page, shell, None)
        if (says not in "".join(wrong)) if says else wrong:
            missed.append(f"of this page {wrong} was found, and should be {says!r}:\n{page}")
    shell.end()
    return missed, len(BREAKS)
