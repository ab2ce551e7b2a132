"""Runs scripts/account on the mock of AWS, as far as that goes, beside what else the check of a release does. Then plants what its
judge must find."""

import copy
import json
import pathlib
import shutil
import subprocess
import sys
from types import SimpleNamespace

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts/accounts"))
from account import Skipped, sum_up, twin  # noqa: E402
from load import found  # noqa: E402
from run import FAILED, PASSED, SKIPPED, Step, follow  # noqa: E402
from steps import STEPS  # noqa: E402

OWNER, STRANGER = "000000000000", "111111111111"
# The version of the release that is deployed first.
EARLIER = "0.0.9"
# Exactly these are not done. All others pass.
NOT_HERE = {
    "tell": "the mock has no address that a release calls",
    "warn": "the mock keeps no history of what an alarm did",
    "deny": "the mock evaluates no policy of a table",
    "cut": "a record without a hint waits four minutes for the relay, and the check does not",
    "relay": "the mock reads no metrics from logs",
    "pair": "the mock does not say how long a function took as Lambda does",
}


def earlier(archive, folder, command):
    """The same release with other code, as an earlier one with its own command line, which is this one."""
    path = twin(archive, folder) / "template.json"
    template = json.loads(path.read_text("utf-8"))
    template["Mappings"]["Release"]["Version"]["Text"] = EARLIER
    path.write_text(json.dumps(template), "utf-8")
    sum_up(folder)
    own = folder / "hookonce"
    own.write_text(f'#!/bin/sh\n[ "$1" != --version ] || {{ echo hookonce {EARLIER}; exit; }}\nexec "{command}" "$@"\n', "utf-8")
    own.chmod(0o755)
    return folder


def start(url, environment, archive, place):
    """Starts a run, in a folder with the profile of an account. An earlier release is upgraded, and is the other build of the pair."""
    home = place / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws/config").write_text("[profile mock]\nregion = eu-central-1\naws_access_key_id = mock\naws_secret_access_key = mock\n", "utf-8")
    (place / "python").mkdir()
    (place / "python/python3").symlink_to(pathlib.Path(sys.executable).resolve())
    own = {**environment, "HOME": str(home), "AWS_ENDPOINT_URL": url, "PATH": f"{environment['PATH']}:{place / 'python'}"}

    def run(typed):
        # As it is in the archive.
        command = [archive / "scripts/account", "run", "--profile", "mock", "--i-own-account", typed, "--before", before, "--pair", before]
        return subprocess.Popen(command, cwd=archive, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")

    before = earlier(archive, place / "before", shutil.which("hookonce", path=environment["PATH"]))
    stranger = run(STRANGER)
    said = stranger.communicate()[1]
    wrong = [] if stranger.returncode == 2 and "account is not 111111111111" in said else [f"a stranger's account: {stranger.returncode} {said}"]
    return run(OWNER), wrong


def end(process, archive):
    """What is wrong with what the run printed and wrote, and the seconds that it took."""
    printed, said = process.communicate()
    if process.returncode:
        return [f"scripts/account ended with {process.returncode}:\n{printed}{said}"], 0
    text = (archive / printed.splitlines()[-1].rsplit("; ", 1)[1]).read_text("utf-8")
    evidence = json.loads(text)
    wrong = [f"the evidence has {hidden!r}" for hidden in (OWNER, "whsec_", "execute-api") if hidden in text]
    versions = evidence["first"]["version"], f"hookonce {evidence['upgraded_to']['version']}"
    wrong += [] if versions == (EARLIER, evidence["hookonce"]) else [f"it upgraded {versions}"]
    skipped = {done["step"]: done["reason"] for done in evidence["steps"] if done["verdict"] == SKIPPED}
    wrong += [] if skipped == NOT_HERE else [f"it skipped {skipped}"]
    passed = [done["step"] for done in evidence["steps"] if done["verdict"] == PASSED]
    wanted = [step.name for step in STEPS if step.name not in NOT_HERE] + ["remove"]
    wrong += [] if passed == wanted else [f"it passed {passed} and should pass {wanted}"]
    wrong += [f"a line is too wide: {line}" for line in printed.splitlines() if len(line) > 80 and " " in line.strip()]
    return wrong, round(sum(done["seconds"] for done in evidence["steps"]), 1)


# ---------------------------------------------------------------- what the judge must find

LOAD = SimpleNamespace(acknowledged={"a": 3, "b": 1}, refused={}, given_up=[], step="s")
RECORDS = [{"key": "a", "outcome": "APPLIED", "duplicates": 2}, {"key": "b", "outcome": "APPLIED", "duplicates": 0}]
ITEMS = [{"event": {"S": "a"}}, {"event": {"S": "b"}}, {"step": {"S": "s"}, "events": {"N": "2"}}]


def lost(_, records, items):
    del items[0]


def twice(_, records, items):
    items.append(items[0])


def counted_twice(_, records, items):
    items[2]["events"]["N"] = "3"


def unrecorded(_, records, items):
    del records[1]


def dead(_, records, items):
    records[1]["outcome"] = None


def doubled(_, records, items):
    records.append(records[0])


def uncounted(_, records, items):
    records[0]["duplicates"] = 1


def given_up(load, records, items):
    load.given_up.append("c")


PLANTED = (lost, twice, counted_twice, unrecorded, dead, doubled, uncounted, given_up)


def verdict(act):
    return follow(None, Step("planted", "", act), None)["verdict"]


def breaks():
    """What is not found."""
    def judged(plant):
        load, records, items = copy.deepcopy((LOAD, RECORDS, ITEMS))
        if plant:
            plant(load, records, items)

        def act(_, expect):
            seen, wanted = found(load, records, items)
            for what, value in seen.items():
                expect(what, value, wanted[what])
        return verdict(act)

    def skips(_, expect):
        expect("a", 1, 1)
        raise Skipped("no")

    def skips_wrong(_, expect):
        expect("a", 1, 2)
        raise Skipped("no")

    cases = [("nothing", judged(None), PASSED), *((plant.__name__, judged(plant), FAILED) for plant in PLANTED),
             ("a step that judges nothing", verdict(lambda _, expect: expect("a", 1)), FAILED),
             ("a step that is skipped", verdict(skips), SKIPPED), ("one that saw what is wrong", verdict(skips_wrong), FAILED)]
    return [f"{what} is {seen} and should be {wanted}" for what, seen, wanted in cases if seen != wanted], len(PLANTED) + 1
