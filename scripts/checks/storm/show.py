"""Prints every charge of a receiver, one in a line: show.py DATABASE"""

import sqlite3
import sys

for row in sqlite3.connect(sys.argv[1], timeout=10).execute("select * from charges"):
    print(*row, sep="|")
