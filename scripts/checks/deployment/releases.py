"""Compares the template of the last release with this one. A stack of that release must be able to take it: it may make no table, queue,
gateway or domain name anew, nor remove one. Then breaks the template of this one: each break must be found."""

import copy
import json
import pathlib
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "releases"))

import changes
from mock import ANSWERS, verdict
from samtranslator.yaml_helper import yaml_parse
from template import released

POLICY = pathlib.Path("deploy/stack-policy.json").read_text("utf-8")
BREAKS = (
    ("InboxTable", "KeySchema", [{"AttributeName": "id", "KeyType": "HASH"}]),
    ("EffectsQueue", "QueueName", "another"),
    ("GatewayDomain", "DomainName", "other.example.com"),
    ("DocumentsTable", None, None),
)


def earlier():
    """The last tag before this commit, and the template that it has. None without one."""
    found = subprocess.run(["git", "describe", "--tags", "--match", "v*", "--abbrev=0", "HEAD^"], capture_output=True, text=True, check=False)
    if found.returncode:
        return None
    tag = found.stdout.strip()
    text = subprocess.run(["git", "show", f"{tag}:template.yaml"], capture_output=True, text=True, check=True).stdout
    return tag, released("arm64", tag.removeprefix("v"), yaml_parse(text))


def lost(old, new):
    """What an update to the new template would make anew or remove, with every optional part and with none."""
    found = set()
    for values in (ANSWERS, {}):
        for change in changes.between(changes.Evaluated(old, values), changes.Evaluated(new, values)):
            if denial := changes.denial(POLICY, change):
                found.add(f"{change.logical_resource_id}: {denial}")
    return sorted(found)


def main():
    version = yaml_parse(pathlib.Path("template.yaml").read_text("utf-8"))["Mappings"]["Release"]["Version"]["Text"]
    now, before = released("arm64", version), earlier()
    found = lost(before[1], now) if before else []
    if not before:
        print("NOT compared: this clone has no tag of an earlier release")
    for logical, name, value in BREAKS:
        broken = copy.deepcopy(now)
        if name:
            broken["Resources"][logical]["Properties"][name] = value
        else:
            broken["Resources"]["Another"] = broken["Resources"].pop(logical)
        if not any(one.startswith(logical) for one in lost(now, broken)):
            found.append(f"nothing is found after {logical} got another {name or 'name in the template'}")
    return verdict("releases", found, compared=int(bool(before)), broken=len(BREAKS))


if __name__ == "__main__":
    sys.exit(main())
