"""The journal: events, their answers, and the steps that changed the model, in one SQLite file (`hedgerow.store`).

| table      | a row is                                                                                       |
|------------|------------------------------------------------------------------------------------------------|
| `event`    | a prediction that was asked for                                                                |
| `features` | what it was asked about, kept until it is no longer needed                                     |
| `answer`   | what became of an event: its label, or None where it was given up                              |
| `step`     | a call that changed the model: a block of events, late labels, a label given up, a snapshot    |
| `history`  | a point of the curves that people look at                                                      |
| `mark`     | a place in an input or output, in the same transaction as what was done up to it               |
| `meta`     | format, settings, totals                                                                       |

Events and steps share one row of numbers.
"""

from __future__ import annotations

from hedgerow.store import Store


class Journal(Store):
    """The file of a live model. Rows are added within a transaction: `begin`, then `commit` or `rollback`."""

    FILE = "journal.sqlite"
    FORMAT = "hedgerow journal 2"
    TABLES = ("event", "features", "answer", "step", "history", "mark")
    REMEDY = (
        "restore the folder from a copy, or start a new journal from its last good snapshot "
        "(snapshots/*.safetensors is a model like any other)"
    )
    SCHEMA = """
    CREATE TABLE event ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, id TEXT UNIQUE, time REAL NOT NULL,
        code INTEGER NOT NULL, shares BLOB NOT NULL, digest BLOB NOT NULL);
    CREATE TABLE features ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, x BLOB NOT NULL);
    CREATE TABLE answer ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, step INTEGER NOT NULL,
        label TEXT NOT NULL, correct INTEGER, time REAL NOT NULL);
    CREATE INDEX answer_by_step ON answer (step);
    CREATE TABLE step ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, kind TEXT NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, time REAL NOT NULL);
    CREATE TABLE history ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, point TEXT NOT NULL);
    CREATE TABLE mark ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,
        value BLOB NOT NULL);
    """

    def set_mark(self, name: str, value: bytes) -> None:
        """A place in an input or output: what is committed with it was done up to there."""
        before = self.row("SELECT number FROM mark WHERE name = ?", (name,))
        if before is None:
            before = self.rows("SELECT coalesce(max(number), 0) + 1 FROM mark")[0]
        else:
            self.delete("mark", "name = ?", (name,))
        self.add("mark", (before[0], name, value))

    def mark(self, name: str) -> bytes | None:
        """What `set_mark` kept."""
        row = self.row("SELECT value FROM mark WHERE name = ?", (name,))
        return None if row is None else bytes(row[0])
