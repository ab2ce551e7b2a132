#!/usr/bin/env python3
"""Says what a record and a run of the relay cost while there are few, many, and very many records in the store: it must be the same.

usage: scripts/benches/growth.py RELEASE HOOKONCE

RELEASE is the folder of the release binaries, HOOKONCE the command, whose embedded store has the tables. Half of the records are settled
and have their items beside them; the others fall due tomorrow. Two of them are made by the functions, and the rest are copies of these
in the store's file. Then scripts/checks/counts.py counts what worker, dispatcher and relay do. Calls of AWS and units must be equal at each size, and
instructions may differ by three hundredths. Calls of the system are left out. A run of the relay also looks at one page of each shard of
what falls due later, and at some of these records: that has a bound, and is not equal.
"""

import json
import pathlib
import sqlite3
import sys
import tempfile

from counts import of_others
from rig import Store, batches, delivery, run

SIZES = [1_000, 100_000, 1_000_000]
DAY_MS = 86_400_000
# The shards of a stack, and the queries of a run of the relay: one for each of them and for each of four lists.
SHARDS, QUERIES = 16, 64
NEAR = 0.03
UNSTEADY = ("instructions", "allocations", "log")
# What a run of the relay may take at most that looks ahead. How much of it a page holds depends on the store.
AHEAD = {"relay: BatchGetItem per run": 1, "relay: read units per run": 2 * QUERIES, "relay: read units per record": 2}
NOT_COMPARED = ("relay: allocations per run", "relay: instructions per run", "relay: log bytes per run")
# It differs by more between two runs at one size: what wakes the runtime is up to the kernel.
LEFT_OUT = "worker: system calls per record"
# What is copied. A part of the name is that of an index.
TABLES = ["hookonce-inbox", "hookonce-inbox::gsi::due", "hookonce-inbox::gsi::journal", "hookonce-domain"]
# The event that is worked on, and the one that waits.
SETTLED, WAITING = 900_000, 900_001


def moved(row, number):
    """A row of a table as that of another event, received a week before, and due a day later."""
    texts = {}
    for field in row:
        if isinstance(field, str) and field.startswith("{"):
            item = json.loads(field)
            for name, days in (("received_at", -7), ("due_at", 1)):
                if name in item:
                    at = item[name]["N"]
                    texts[at] = str(int(at) + days * DAY_MS)
            if "received_at" in item and "journal_shard" in item:
                texts[item["journal_shard"]["S"]] = f"{int(texts[item['received_at']['N']]) // 3_600_000}#{number % SHARDS}"
            if "due_shard" in item:
                texts[item["due_shard"]["S"]] = f"{item['due_shard']['S'].partition('#')[0]}#{number % SHARDS}"
    for event in (SETTLED, WAITING):
        texts[f"_{event}"] = f"_{event}_{number:07}"
    for old, new in texts.items():
        row = [field.replace(old, new) if isinstance(field, str) else field for field in row]
    return row


def fill(release, hookonce, folder, size):
    """So many records."""
    with Store(hookonce, folder) as store:
        events = [delivery(number) for number in (SETTLED, WAITING)]
        hints = run(f"{release}/hookonce-webhook", events=events, store=store).sent["hints"]
        run(f"{release}/hookonce-example-worker", events=batches(hints[:1]), store=store)
    file = sqlite3.connect(folder / "tables/dynamodb.sqlite3")
    file.execute("PRAGMA synchronous = OFF")
    for table in TABLES:
        rows = file.execute(f'SELECT * FROM "{table}"').fetchall()
        places = ",".join("?" * len(rows[0]))
        copies = (moved(row, number) for number in range(size // 2 - 1) for row in rows)
        file.executemany(f'INSERT INTO "{table}" VALUES ({places})', copies)
        # It would fall due within minutes.
        key = "table_pk" if "::" in table else "pk"
        file.execute(f'DELETE FROM "{table}" WHERE {key} = ?', [f"S:in#stripe#evt_{WAITING}"])
        file.commit()
    (count,) = file.execute(f'SELECT count(*) FROM "{TABLES[0]}"').fetchone()
    assert count == size - 1, count
    file.close()


def report(counts):
    """Prints the table. Whether anything grows."""
    print(f"{'':42}" + "".join(f"{size:>12,}" for size in SIZES))
    bad = False
    for name in dict.fromkeys(name for of_size in counts for name in of_size):
        values = [of_size.get(name, 0) for of_size in counts]
        print(f"{name:42}" + "".join(f"{value:12,.{0 if value >= 1000 else 2}f}" for value in values))
        near = NEAR if any(word in name for word in UNSTEADY) else 0
        if name in AHEAD and max(values) > AHEAD[name]:
            bad = True
            print(f"{name}: more than {AHEAD[name]}")
        elif name not in (*AHEAD, *NOT_COMPARED) and max(values) - min(values) > near * max(values):
            bad = True
            print(f"{name}: differs with the size of the store")
    return bad


def main():
    release, hookonce = sys.argv[1:]
    counts = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            fill(release, hookonce, folder, size)
            with Store(hookonce, folder) as store:
                counts.append(of_others(release, store, folder))
                del counts[-1][LEFT_OUT]
    bad = report(counts)
    print(json.dumps({"part": "growth", "records": SIZES, "counts": counts}))
    return bad


if __name__ == "__main__":
    sys.exit(main())
