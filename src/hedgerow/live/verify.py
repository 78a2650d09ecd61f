"""Whether a journal is what was written: structure, every row, the totals, and the head."""

from __future__ import annotations

import zlib
from typing import Any

from hedgerow.live.errors import JournalError
from hedgerow.live.journal import FORMAT, TABLES, Journal, checksum

REMEDY = (
    "restore the folder from a copy, or start a new journal from its last good snapshot (snapshots/*.safetensors is a "
    "model like any other)"
)


def verify(journal: Journal, *, accept_loss: bool = False) -> dict[str, Any]:
    """The totals, and what was kept with them; a JournalError names what is wrong.

    With `accept_loss` a journal that ends before its head is taken as it is. Rows that were changed are never taken.
    """
    with journal.errors():
        if journal.meta("format") != FORMAT:
            raise _damaged(journal, f"it is not a {FORMAT!r}")
        found = journal.rows("PRAGMA integrity_check(1)")
        if found != [("ok",)]:
            raise _damaged(journal, str(found[0][0]))
        about = journal.meta("totals")
        if not isinstance(about, dict):
            raise _damaged(journal, "it has no totals")
        for table in TABLES:
            _verify_table(journal, table, about["tables"][table])
        _verify_head(journal, about, accept_loss)
    journal.last, journal.commits, journal.totals = about["last"], about["commits"], about["tables"]
    return dict(about)


def _verify_table(journal: Journal, table: str, total: list[int]) -> None:
    count = checks = 0
    for row in journal.stream(f"SELECT * FROM {table}"):
        if row[-1] != checksum(row[:-1]):
            raise _damaged(journal, f"{table} {row[0]!r} is not what was written")
        count, checks = count + 1, checks + row[-1]
    if [count, checks] != total:
        raise _damaged(journal, f"it has {count} rows of {table}, {total[0]} were written")


def _verify_head(journal: Journal, about: dict[str, Any], accept_loss: bool) -> None:
    head = journal.head
    if about["commits"] < head.commits and not accept_loss:
        raise _damaged(
            journal,
            f"its newest part is missing: it ends with number {about['last']}, but {head.last} was acknowledged; "
            "accept_loss=True (--accept-loss) goes on without it",
        )
    text = journal.rows("SELECT value FROM meta WHERE key = 'totals'")[0][0]
    if about["commits"] == head.commits and zlib.crc32(text.encode()) != head.totals and not accept_loss:
        raise _damaged(journal, "its totals are not those that were acknowledged last")


def _damaged(journal: Journal, what: str) -> JournalError:
    return JournalError(f"{journal.path} is damaged: {what}; {REMEDY}")
