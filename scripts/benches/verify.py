#!/usr/bin/env python3
"""Says what it takes to verify a delivery by each scheme of the catalog, beside the bare HMAC-SHA256 of its body.

usage: scripts/benches/verify.py PROGRAM

PROGRAM is the example `verify` of shared/providers, with its symbols. It measures the time: medians over rounds, and ratios of the same
round. Then `callgrind` counts the instructions of one more verification of each.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The function of the program in which a delivery is verified.
VERIFIED = "verify::verified"


def instructions(program, count):
    """Those of each verification, in the order of the program. It verifies each twice: when it has made the delivery, and once more."""
    with tempfile.TemporaryDirectory() as folder:
        callgrind = ["valgrind", "--tool=callgrind", f"--toggle-collect={VERIFIED}", f"--dump-after={VERIFIED}"]
        subprocess.run([*callgrind, f"--callgrind-out-file={folder}/profile", program, "once"], check=True, capture_output=True)
        texts = [pathlib.Path(f"{folder}/profile.{number}").read_text() for number in range(count + 1, 2 * count + 1)]
    return [int(re.search(r"^totals: (\d+)", text, re.MULTILINE).group(1)) for text in texts]


def main():
    printed = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in printed.splitlines()]
    lines = [line | {"instructions": count} for line, count in zip(lines, instructions(sys.argv[1], len(lines)), strict=True)]
    rows = {}
    for line in lines:
        rows.setdefault((line["scheme"], line["how"]), []).append(line)
    print(f"{'':38}{'2 KB':>20}{'200 KB':>22}")
    print(f"{'scheme':25}{'how':13}{'us':>6}{'ratio':>6}{'k instr':>8}{'us':>8}{'ratio':>6}{'k instr':>8}")
    for (scheme, how), (short, long) in rows.items():
        figures = [f"{line['us']:{width}.1f}{line['ratio']:6.1f}{line['instructions'] / 1000:8,.0f}" for width, line in ((6, short), (8, long))]
        print(f"{scheme:25}{how:13}{''.join(figures)}")
    print(json.dumps({"part": "verify", "processors": os.cpu_count(), "schemes": lines}))


if __name__ == "__main__":
    main()
