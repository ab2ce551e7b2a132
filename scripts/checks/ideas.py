#!/usr/bin/env python3
"""Counts what a reader of the project must hold in his head, and refuses more of it than scripts/checks/ideas.json allows.

usage: scripts/checks/ideas.py HOOKONCE

HOOKONCE is the built command line. A count that fell is to be written into scripts/checks/ideas.json, so that it stays.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVERYWHERE = ("shared", "functions", "tools", "tests", "examples", "benches", "fuzz")
SPEECH = {"told", "tells", "says", "said", "asked"}
MOST = json.loads((ROOT / "scripts/checks/ideas.json").read_text())


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.rs")):
            if "target" not in path.relative_to(ROOT).parts:
                yield path.read_text()


def lines(pattern, *folders):
    return sum(len(re.findall(pattern, text, re.MULTILINE)) for text in sources(*folders))


def constants(*folders):
    """Those of tests are no part of what runs, and `const _` has no name."""
    product = (re.split(r"^#\[cfg\(test\)\]\nmod tests \{", text, flags=re.MULTILINE)[0] for text in sources(*folders))
    return sum(len(re.findall(r"^\s*(?:pub(?:\(\w+\))? )?const [A-Z][A-Z_0-9]*:", text, re.MULTILINE)) for text in product)


def vague_names():
    """Names with a verb of speech say less than the word of the field."""
    item = r"^\s*(?:pub(?:\([\w: ]+\))? )?(?:async |const |unsafe )*(?:fn|struct|enum|trait|type|const|static|mod) (\w+)"
    names = (name for text in sources(*EVERYWHERE) for name in re.findall(item, text, re.MULTILINE))
    return sum(bool(SPEECH & {word.lower() for word in re.findall(r"[A-Z]*[a-z]+|[A-Z]+", name)}) for name in names)


def template(section, pattern):
    text = (ROOT / "template.yaml").read_text()
    body = re.search(rf"^{section}:\n(.*?)(?=^\w)", text, re.MULTILINE | re.DOTALL).group(1)
    return len(re.findall(pattern, body, re.MULTILINE))


def variables():
    text = (ROOT / "shared/runtime/src/config.rs").read_text()
    return len(re.findall(r'"HOOKONCE_', re.search(r"pub const VARIABLES.*?\];", text, re.DOTALL).group(0)))


def options(hookonce):
    """An option counts in each command that has it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([hookonce, "man", folder], check=True, capture_output=True)
        pages = [page.read_text() for page in pathlib.Path(folder).glob("*.1")]
    count = 0
    for page in pages:
        section = page.partition(".SH OPTIONS")[2]
        named = re.findall(r"^(?:\\fB\\-\w\\fR, )?\\fB\\-\\-([\w\\-]+)\\fR", section, re.MULTILINE)
        count += sum(name not in ("help", "version") for name in named)
    return count


def main():
    crates = ("shared/runtime/src", "shared/aws/src", "shared/protocol/src")
    counts = {
        "environment variables": variables(),
        "template parameters": template("Parameters", r"^  \w+:$"),
        "template rules": template("Rules", r"^  \w+:$"),
        "template mapping values": template("Mappings", r"^      \w+: "),
        "alarms": template("Resources", r"Type: AWS::CloudWatch::Alarm$"),
        "ports and traits": lines(r"^\s*(?:pub(?:\(\w+\))? )?trait [A-Z]", *crates),
        "named constants": constants(*crates),
        "names with a verb of speech": vague_names(),
        "lines of features": lines(r'feature = "(?:aws|account)"', "shared", "functions", "tools", "tests"),
        "option places": options(sys.argv[1]),
    }
    assert counts.keys() == MOST.keys(), "scripts/checks/ideas.json lists other counts"
    above = [name for name, count in counts.items() if count > MOST[name]]
    below = [name for name, count in counts.items() if count < MOST[name]]
    for name, count in counts.items():
        print(f"{name:28} {count:4} of {MOST[name]:4}")
    for name in above:
        print(f"{name}: more than scripts/checks/ideas.json allows. Delete one, or say in the commit why a reader needs one more")
    for name in below:
        print(f"{name}: fewer than scripts/checks/ideas.json allows. Write the new count there")
    print(json.dumps({"part": "ideas", **{name.replace(" ", "_"): count for name, count in counts.items()}}))
    return 1 if above or below else 0


if __name__ == "__main__":
    sys.exit(main())
