#!/usr/bin/env python3
"""Counts what the functions do for an event, and the webhook at its start, and compares the counts with scripts/checks/counts.json.

usage: scripts/checks/counts.py RELEASE HOOKONCE

RELEASE is the folder of the release binaries, of which the webhook has its symbols, and HOOKONCE the command. scripts/checks/rig.py plays Lambda and
SQS for the functions, and for the start and the deliveries of the webhook, and for `bench-bare` and `bench-hello`, DynamoDB, too; the other
functions have the tables of `hookonce dev`, which count units. No clock is read: a count is the same on a busy machine. `valgrind` counts instructions and allocations, `strace` counts system calls. A count
above its limit fails. So does one below, unless it has no more than an upper limit: write it into scripts/checks/counts.json, so that it stays.
"""

import atexit
import collections
import concurrent.futures
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from rig import BODY_BYTES, INBOX, SECONDS_MAX, Store, batches, delivery, deliveries, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = json.loads((ROOT / "scripts/checks/counts.json").read_text())
# The first events read documents and open connections. An event costs what these many more cost.
WARM, COUNTED = 20, 100
# How many bytes more the longer body has, which tells what a byte costs, and how many of those deliveries are enough to tell.
MORE_BYTES, LONG = 8192, 20
BLOCK_BYTES = 64
# The functions that compress blocks of 64 bytes for SHA-256: those of sha2 and of ring.
COMPRESS = re.compile(r"sha2::sha256::(soft|x86_sha).*::compress$|sha256_block_data_order_")
ALLOCATIONS = {"malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign"}
# Per mille of a limit by which a count may differ from it, by the group in which scripts/checks/counts.json lists it.
# What is listed under "at most" may be less: threads that wake each other make fewer system calls at times.
TOLERANCES = {"exact": 0, "within 3 percent": 30, "within a tenth": 100, "at most": 0}


@functools.cache
def slow_clock():
    """The library of scripts/checks/slow_clock.c."""
    place = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, place)
    library = f"{place}/slow_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, ROOT / "scripts/checks/slow_clock.c"], check=True)
    return library


def under_valgrind(function, events, folder, store=None):
    """What a run took, by name."""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    valgrind = [
        "valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", f"--callgrind-out-file={place}/profile",
        f"--log-file={place}/valgrind.log",
    ]
    played = run(*valgrind, function, events=events, store=store, variables={"LD_PRELOAD": slow_clock()}.items())
    text = (place / "profile").read_text()
    names = dict(re.findall(r"^c?fn=(\(\d+\)) (.+)$", text, re.MULTILINE))
    calls = re.findall(r"^cfn=(\(\d+\)).*\n(?:c?(?:fi|fe|fl|ob)=.*\n)*calls=(\d+)", text, re.MULTILINE)
    allocations = sum(int(count) for place, count in calls if names[place].partition("'")[0] in ALLOCATIONS)
    instructions = int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE).group(1))
    blocks = sha256_blocks(text, names)
    return of(played) + collections.Counter(
        {"instructions": instructions, "allocations": allocations, "SHA-256 blocks": blocks, "log bytes": len(played.log),
         "log lines": played.log.count(b"\n")})


def sha256_blocks(profile, names):
    """How many blocks of 64 bytes were hashed. A function that compresses blocks runs each of its instructions at most once for each,
    and those of its loop once."""
    compress = {place for place, name in names.items() if COMPRESS.search(name)}
    executed, inside, called = collections.defaultdict(collections.Counter), None, False
    for line in profile.splitlines():
        if line.startswith("fn="):
            place = line[3:].partition(" ")[0]
            inside = place if place in compress else None
        elif inside and line.startswith("0x"):
            if not called:
                address, _, count = line.split()
                executed[inside][address] += int(count)
        called = line.startswith("calls=")
    return sum(max(counts.values()) for counts in executed.values())


def of(played):
    """The calls and units of a run."""
    return collections.Counter(played.calls) + played.units


def under_strace(function, events, folder, store=None):
    """The system calls of a run, and what Lambda saw."""
    trace = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "strace"
    # With -D the function is the child of this program, which can end it.
    played = run("strace", "-D", "-f", "-qq", "-o", str(trace), function, events=events, store=store)
    end = time.monotonic() + SECONDS_MAX
    while "+++ killed" not in (text := trace.read_text()):
        assert time.monotonic() < end, "strace has not written how the function ended"
        time.sleep(0.05)
    return system_calls(text), played


def system_calls(trace):
    """The calls in what strace wrote. One that another thread interrupts takes two lines, and ends in the second. Signals have no call."""
    calls, last = [], {}
    for thread, line in re.findall(r"^(\d+) +(.*)$", trace, re.MULTILINE):
        if line.startswith("<... "):
            calls[last[thread]] += line
        elif re.match(r"\w+\(", line):
            last[thread] = len(calls)
            calls.append(line)
    return calls


def is_document(call):
    """Whether a call opens a file that is no library of the system and no view of the kernel's."""
    opened = re.match(r'open(?:at)?\(.*?"(.*?)".*= \d+$', call)
    return bool(opened) and not re.search(r"\.so(\.|$)|^/(proc|sys|dev)/|^/etc/ld\.so", opened.group(1))


def each(after, before, count=COUNTED):
    return (after - before) / count


def of_webhook(webhook, folder):
    start = under_valgrind(webhook, [], folder)
    warm = under_valgrind(webhook, deliveries(WARM), folder)
    all_ = under_valgrind(webhook, deliveries(WARM + COUNTED), folder)
    long = [under_valgrind(webhook, deliveries(count, body_bytes=BODY_BYTES + MORE_BYTES), folder) for count in (WARM, WARM + LONG)]
    first_calls, _ = under_strace(webhook, [], folder)
    warm_calls, warm_played = under_strace(webhook, deliveries(WARM), folder)
    all_calls, all_played = under_strace(webhook, deliveries(WARM + COUNTED), folder)
    made, made_before = collections.Counter(all_played.calls), collections.Counter(warm_played.calls)
    instructions = each(all_["instructions"], warm["instructions"])
    blocks = each(all_["SHA-256 blocks"], warm["SHA-256 blocks"])
    of_long, of_long_blocks = (each(long[1][what], long[0][what], LONG) for what in ("instructions", "SHA-256 blocks"))
    return {
        "AWS calls at start": all_played.calls_at_start.total(),
        "PutItem per delivery": each(made["PutItem"], made_before["PutItem"]),
        "SendMessage per delivery": each(made["SendMessage"], made_before["SendMessage"]),
        "AWS calls per delivery": each(made.total(), made_before.total()),
        "files opened at start": sum(map(is_document, first_calls)),
        "connections at start": sum(call.startswith("connect(") for call in first_calls),
        "instructions at start": start["instructions"],
        "instructions per delivery": instructions,
        "instructions per byte of a body": each(of_long, instructions, MORE_BYTES),
        "SHA-256 blocks per delivery": blocks,
        "SHA-256 blocks per 64 bytes of a body": each(of_long_blocks, blocks, MORE_BYTES / BLOCK_BYTES),
        "allocations at start": start["allocations"],
        "allocations per delivery": each(all_["allocations"], warm["allocations"]),
        "system calls at start": len(first_calls),
        "system calls per delivery": each(len(all_calls), len(warm_calls)),
        "log bytes per delivery": each(len(all_played.log), len(warm_played.log)),
        "log lines per delivery": each(all_played.log.count(b"\n"), warm_played.log.count(b"\n")),
    }


def of_bare(release, folder):
    """What the two calls of the SDK take, which a release of the SDK may change, and the clients by themselves."""
    counts = {}
    for name in ("bare", "hello"):
        start, warm, all_ = (under_valgrind(f"{release}/bench-{name}", deliveries(count), folder) for count in (0, WARM, WARM + COUNTED))
        counts[f"{name}: instructions at start"] = start["instructions"]
        counts[f"{name}: instructions per delivery"] = each(all_["instructions"], warm["instructions"])
    return counts


def fall_due(store, hints, seconds=-1):
    """Lets the records of these hints be due: a second ago, or in so many."""
    for hint in hints:
        at = {":at": {"N": str(int((time.time() + seconds) * 1000))}}
        key = {"pk": {"S": json.loads(hint)["pk"]}}
        status, _ = store.call("UpdateItem", {
            "TableName": INBOX, "Key": key, "UpdateExpression": "SET due_at = :at", "ExpressionAttributeValues": at})
        assert status == 200, hint


def of_others(release, store, folder):
    """What worker, relay and dispatcher do for a record, and the relay for a run."""
    webhook, worker = f"{release}/hookonce-webhook", f"{release}/hookonce-example-worker"
    counts = {}

    def claimed(endpoint, first=0, number=WARM + WARM + COUNTED):
        events = [delivery(first + at, endpoint=endpoint) for at in range(number)]
        played = run(webhook, events=events, store=store)
        return played.sent["hints"], played.units["write units"] / len(events)

    def count(name, warm, all_):
        counts.update({f"{name}: {what} per record": each(all_[what], warm[what]) for what in sorted(warm | all_) if all_[what] != warm[what]})

    hints, counts["webhook: write units per record"] = claimed("stripe")
    count("worker", *(under_valgrind(worker, batches(some), folder, store) for some in (hints[:WARM], hints[WARM:])))
    hints = claimed("stripe", first=2000)[0]
    warm, all_ = (len(under_strace(worker, batches(some), folder, store)[0]) for some in (hints[:WARM], hints[WARM:]))
    counts["worker: system calls per record"] = each(all_, warm)
    dispatcher, relay = f"{release}/hookonce-dispatcher", f"{release}/hookonce-relay"
    hints = run(worker, events=batches(claimed("receipts")[0]), store=store).sent["effects"]
    count("dispatcher", *(under_valgrind(dispatcher, batches(some), folder, store) for some in (hints[:WARM], hints[WARM:])))
    scheduled = json.dumps({"dead_letters": "http://127.0.0.1/000000000000/dead"})
    one, two = (under_valgrind(relay, [scheduled] * runs, folder, store) for runs in (1, 2))
    counts.update({f"relay: {what} per run": two[what] - one[what] for what in sorted(one | two) if two[what] != one[what]})
    runs = []
    # Claimed just before, so that none of the others falls due by itself.
    for first, number in ((1000, WARM), (1000 + WARM, WARM + COUNTED)):
        hints = claimed("stripe", first, number)[0]
        fall_due(store, hints)
        runs.append(under_valgrind(relay, [scheduled], folder, store))
        # The next run looks ahead at those that it sent, however long it takes to begin.
        fall_due(store, hints, 3600)
        # It writes one line, however many are due.
        del runs[-1]["log bytes"], runs[-1]["log lines"]
    count("relay", *runs)
    return counts


def measure(release, hookonce, folder):
    """Both at a time: whoever has two processors waits half as long."""
    tables = pathlib.Path(tempfile.mkdtemp(dir=folder))
    with Store(hookonce, tables) as store, concurrent.futures.ThreadPoolExecutor() as pool:
        others = pool.submit(of_others, release, store, folder)
        return of_webhook(f"{release}/hookonce-webhook", folder) | of_bare(release, folder) | others.result()


def main():
    with tempfile.TemporaryDirectory() as folder:
        counts = measure(*sys.argv[1:], pathlib.Path(folder))
    bad = 0
    listed = {name: (limit, TOLERANCES[group]) for group, names in LIMITS.items() for name, limit in names.items()}
    if unlike := counts.keys() ^ listed.keys():
        print(json.dumps(counts, indent=2))
        sys.exit(f"only one of scripts/checks/counts.json and this program has: {', '.join(sorted(unlike))}")
    for name, count in counts.items():
        limit, tolerance = listed[name]
        print(f"{name:40} {count:14,.2f} of {limit:14,.2f}")
        if count > limit * (1 + tolerance / 1000) or name not in LIMITS["at most"] and count < limit * (1 - tolerance / 1000):
            bad = 1
            print(f"{name}: more than scripts/checks/counts.json allows" if count > limit else
                  f"{name}: less than scripts/checks/counts.json allows. Write the new count there")
    print(json.dumps({"part": "counts", **{name.replace(" ", "_"): count for name, count in counts.items()}}))
    return bad


if __name__ == "__main__":
    sys.exit(main())
