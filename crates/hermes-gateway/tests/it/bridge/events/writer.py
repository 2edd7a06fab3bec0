"""Another program that writes to a session database: one message per line of its input.

    writer.py PATH MODE SESSION    MODE is the journal mode, `wal` or `delete`

After each commit it prints the time.
"""

import sqlite3
import sys
import time

path, mode, session = sys.argv[1:]
connection = sqlite3.connect(path, timeout=20, isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {mode}")
connection.execute("PRAGMA synchronous = NORMAL")
print("ready", flush=True)
for line in sys.stdin:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, ?)",
        [session, line.rstrip("\n"), time.time()],
    )
    connection.execute("COMMIT")
    print(time.time(), flush=True)
