"""Proves a release in an account: deploys it, sends, kills, upgrades, rolls back, restores, removes all, and writes what it saw.

usage: run.py run|remove --profile P --i-own-account ID [...]; scripts/account describes it."""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import traceback

from account import NAME, Account, Refused, Skipped, release_of
from remove import left, remove
from steps import STEPS, Step

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH, SCHEMA = 80, 1
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
SIGNS = {PASSED: "x", FAILED: "!", SKIPPED: "-"}
CODES = {PASSED: 0, FAILED: 1}
INTERRUPTED = 130


def options():
    parser = argparse.ArgumentParser(prog="scripts/account", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    run, removal = commands.add_parser("run"), commands.add_parser("remove")
    for command in (run, removal):
        command.add_argument("--profile", required=True)
        command.add_argument("--region")
        command.add_argument("--i-own-account", required=True, metavar="ID")
    run.add_argument("--archive", type=folder, default=pathlib.Path.cwd())
    run.add_argument("--before", type=folder)
    run.add_argument("--pair", type=folder)
    removal.add_argument("stack")
    return parser.parse_args()


def folder(text):
    path = pathlib.Path(text).resolve()
    if not (path / "deploy.sh").is_file():
        raise argparse.ArgumentTypeError(f"{text} has no deploy.sh: give the folder of an unpacked archive, such as hookonce-0.1.0-aws-arm64")
    return path


def refuse(why, instead):
    """What cannot even begin."""
    print(f"error: {why}\ntry: {instead}", file=sys.stderr)
    sys.exit(2)


def account_of(chosen, work):
    """The account of the profile, whose region is known."""
    try:
        return Account(chosen, work)
    except Refused as refused:
        refuse(str(refused), f"name one: --region R, or `aws configure set region R --profile {chosen.profile}`, which also makes the profile")


def owner(account, typed):
    """The account's id, which the caller must have typed."""
    try:
        found = account.identity()
    except Refused as refused:
        refuse(str(refused), "sign in, for example with `aws sso login --profile P`")
    if typed != found:
        refuse(f"the profile's account is not {typed}", "type the id that `aws sts get-caller-identity --profile P` prints, if it is yours")
    return found


def say(text):
    print(textwrap.fill(text, WIDTH), file=sys.stderr)


def intends(account, old, new):
    say(f"In {account.region} this makes the stacks {account.name}, {account.name}-handler and {account.name}-code, their tables and up to "
        "three copies, a bucket, a topic and log groups, and removes them at the end, also after a failure or Ctrl-C.")
    say(f"It sends some thousand deliveries of two hundred bytes. That costs less than one US dollar by AWS's list prices; most of it is "
        "for metrics and alarms that stand for about an hour.")
    say(f"first release {old['version']} for {old['processor']}; "
        + (f"upgrade to {new['version']}" if new else "upgrade to the same release, packed again, because there is no --before"))


class Judge:
    """What a step has seen and what it must see."""

    def __init__(self):
        self.seen, self.wanted = {}, {}

    def expect(self, what, seen, *wanted):
        """Without `wanted` it is only told."""
        self.seen[what] = seen
        if wanted:
            self.wanted[what] = wanted[0]

    def wrong(self):
        return [what for what, wanted in self.wanted.items() if self.seen[what] != wanted]


def follow(account, step, failed):
    """Runs a step. Nothing that was not judged has passed."""
    judge, begun, reason = Judge(), time.monotonic(), None
    try:
        if failed and failed in NEEDED:
            raise Skipped(f"`{failed}` failed")
        step.act(account, judge.expect)
        verdict = PASSED if judge.wanted and not judge.wrong() else FAILED
        reason = None if judge.wanted else "nothing was judged"
    except Skipped as skipped:
        # What was seen before may be wrong.
        verdict, reason = (FAILED if judge.wrong() else SKIPPED), str(skipped)
    except Exception as error:  # noqa: BLE001, the run goes on, and removes all
        verdict, reason = FAILED, f"{type(error).__name__}: {error}"
        if not isinstance(error, Refused):
            traceback.print_exc()
    return {"step": step.name, "does": step.does, "verdict": verdict, "reason": reason, "seconds": round(time.monotonic() - begun, 1),
            "seen": judge.seen, "wanted": judge.wanted}


# Without these there is nothing to look at.
NEEDED = ("deploy", "set up")


def removes(account, expect):
    expect("what could not be removed", remove(account), [])
    expect("what is left", left(account), [])


def line(done):
    """A step of the checklist, in 80 columns."""
    head = f"[{SIGNS[done['verdict']]}] {done['step']:<10} {done['seconds']:>7.1f} s  "
    lines = textwrap.wrap(done["does"], WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    told = [f"{done['verdict']}: {done['reason']}"] if done["reason"] else []
    for what, seen in done["seen"].items():
        wanted = done["wanted"].get(what)
        told.append(f"{what}: {short(seen)}" + (f", and should be {short(wanted)}" if what in done["wanted"] and seen != wanted else ""))
    for one in told:
        lines += textwrap.wrap(one, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 8, break_on_hyphens=False)
    return "\n".join(lines)


def short(value):
    return value if isinstance(value, str) else json.dumps(value)


def masked(value, account, owner_id):
    """A value without the account's id but its last four digits, and without the run's secret."""
    text = json.dumps(value, indent=2, default=str)
    return json.loads(text.replace(owner_id, "*" * 8 + owner_id[-4:]).replace(account.secret, "whsec_…"))


def kept(done):
    """A step as the file has it: without what a command wrote when it failed, which may be anything."""
    return {**done, "reason": ": ".join(done["reason"].split(": ")[:2])} if done["verdict"] == FAILED and done["reason"] else done


def place(cloud):
    """The file of today. One that is there is kept. What a mock shows is no evidence."""
    shelf = ROOT / ("docs/evidence" if cloud == "aws" else "target/evidence")
    shelf.mkdir(parents=True, exist_ok=True)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    names = [f"{today}.json", *(f"{today}-{number}.json" for number in range(2, 100))]
    return next(shelf / name for name in names if not (shelf / name).exists())


def removal_of(account, chosen):
    return f"scripts/account remove {account.name} --profile {chosen.profile} --region {account.region} --i-own-account {chosen.i_own_account}"


def end_with(account, chosen):
    """What is left, and how it is removed."""
    found = left(account)
    for one in found:
        print(f"left: {one}", file=sys.stderr)
    if found:
        print(f"try: {removal_of(account, chosen)}", file=sys.stderr)
    return found


def interrupt(*_):
    raise KeyboardInterrupt


def prove(chosen, work):
    account = account_of(chosen, work)
    owned = owner(account, chosen.i_own_account)
    if not shutil.which("hookonce"):
        refuse("hookonce is not on the PATH", "unpack the release's archive for this machine, and add its folder")
    account.first, account.second = (chosen.before, chosen.archive) if chosen.before else (chosen.archive, None)
    account.pair = chosen.pair
    old, new = release_of(account.first), account.second and release_of(account.second)
    intends(account, old, new)
    begun, done, stopped = datetime.datetime.now(datetime.timezone.utc), [], False
    try:
        for step in STEPS:
            failed = next((one["step"] for one in done if one["verdict"] == FAILED and one["step"] in NEEDED), None)
            done.append(follow(account, step, failed))
            print(line(masked(done[-1], account, owned)), flush=True)
    except KeyboardInterrupt:
        stopped = True
        say("Interrupted: all of it is removed now, which takes minutes. Another Ctrl-C leaves it.")
    try:
        done.append(follow(account, Step("remove", "stacks, tables, bucket, topic and log groups are removed", removes), None))
        print(line(masked(done[-1], account, owned)), flush=True)
    finally:
        remaining = end_with(account, chosen)
    verdict = FAILED if stopped or remaining or any(one["verdict"] == FAILED for one in done) else PASSED
    cloud = "mock" if account.mock else "aws"
    evidence = {
        "schema": SCHEMA, "cloud": cloud, "begun": begun.isoformat(timespec="seconds"), "verdict": verdict, "interrupted": stopped,
        "account": owned, "region": account.region, "stack": account.name, "hookonce": account.run("hookonce", "--version").strip(),
        "first": old, "upgraded_to": new or "the same release, packed again", "steps": [kept(one) for one in done], "left": remaining,
    }
    file = place(cloud)
    file.write_text(json.dumps(masked(evidence, account, owned), indent=2, ensure_ascii=False) + "\n", "utf-8")
    counts = {kind: sum(one["verdict"] == kind for one in done) for kind in SIGNS}
    print(f"{verdict}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}; {os.path.relpath(file)}")
    return INTERRUPTED if stopped else CODES[verdict]


def main():
    chosen = options()
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    with tempfile.TemporaryDirectory() as work:
        if chosen.command == "run":
            return prove(chosen, pathlib.Path(work))
        if not NAME.fullmatch(chosen.stack):
            refuse(f"{chosen.stack} is not the stack of a run", "the name of one is like hookonce-proof-0a1b2c")
        account = account_of(chosen, pathlib.Path(work))
        owner(account, chosen.i_own_account)
        for one in remove(account):
            print(f"error: {one}", file=sys.stderr)
        return 1 if end_with(account, chosen) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
