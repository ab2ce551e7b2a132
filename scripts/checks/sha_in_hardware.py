#!/usr/bin/env python3
"""Looks whether a binary for arm64 hashes by the instructions of the processor: qemu says which it translates.

usage: scripts/checks/sha_in_hardware.py WEBHOOK

WEBHOOK is the release binary. scripts/checks/rig.py plays Lambda, DynamoDB and SQS for it. Debian has qemu-user-static, and the
shared libraries as libc6-arm64-cross and libgcc-s1-arm64-cross.
"""

import pathlib
import sys
import tempfile

from rig import deliveries, run

LIBRARIES = "/usr/aarch64-linux-gnu"
# Rounds of SHA-256, and of the preparation of a block.
INSTRUCTIONS = ["sha256h", "sha256su0"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        translated = pathlib.Path(folder) / "translated"
        run("qemu-aarch64-static", "-L", LIBRARIES, "-d", "in_asm", "-D", str(translated), sys.argv[1], events=deliveries(3))
        lines = translated.read_text(errors="replace").split()
    missing = [name for name in INSTRUCTIONS if name not in lines]
    if missing:
        sys.exit(f"{sys.argv[1]} hashes without {', '.join(missing)}: SHA-256 runs in software")
    print(f"{sys.argv[1]}: {', '.join(f'{lines.count(name)} {name}' for name in INSTRUCTIONS)} in the code that three deliveries run")


if __name__ == "__main__":
    sys.exit(main())
