"""Whether a journal is what was written: structure, every row, the totals, and the head."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hedgerow.live.errors import JournalError
from hedgerow.live.journal import FORMAT, TABLES, Journal, Row, checksum

REMEDY = (
    "restore the folder from a copy, or start a new journal from its last good snapshot (snapshots/*.safetensors is a "
    "model like any other)"
)

ROWS = {table: f"SELECT * FROM {table}" for table in TABLES}


def verify(journal: Journal, *, accept_loss: bool = False) -> dict[str, Any]:
    """The totals, and what was kept with them; a JournalError names what is wrong.

    With `accept_loss` a journal that ends before its head is taken as it is. Rows that were changed are never taken.
    """
    with journal.errors():
        if journal.meta("format") != FORMAT:
            raise damaged(journal.path, f"it is not a {FORMAT!r}")
        found = journal.rows("PRAGMA integrity_check(1)")
        if found != [("ok",)]:
            raise damaged(journal.path, str(found[0][0]))
        about = journal.meta("totals")
        if not isinstance(about, dict):
            raise damaged(journal.path, "it has no totals")
        for table in TABLES:
            verify_table(journal.path, table, journal.stream(ROWS[table]), about["tables"][table])
        _verify_head(journal, about, accept_loss)
    journal.last, journal.commits, journal.totals = about["last"], about["commits"], about["tables"]
    return dict(about)


def verify_table(path: Path, table: str, rows: Iterable[Row], total: list[int]) -> None:
    """Whether all rows of a table are there, as they were written."""
    count = checks = 0
    for row in rows:
        if row[-1] != checksum(row[:-1]):
            raise damaged(path, f"{table} {row[0]!r} is not what was written")
        count, checks = count + 1, checks + row[-1]
    if [count, checks] != total:
        raise damaged(path, f"it has {count} rows of {table}, {total[0]} were written")


def _verify_head(journal: Journal, about: dict[str, Any], accept_loss: bool) -> None:
    head = journal.head
    if about["commits"] < head.commits and not accept_loss:
        raise damaged(
            journal.path,
            f"its newest part is missing: it ends with number {about['last']}, but {head.last} was acknowledged; "
            "accept_loss=True (--accept-loss) goes on without it",
        )
    text = journal.rows("SELECT value FROM meta WHERE key = 'totals'")[0][0]
    if about["commits"] == head.commits and zlib.crc32(text.encode()) != head.totals and not accept_loss:
        raise damaged(journal.path, "its totals are not those that were acknowledged last")


def damaged(path: Path, what: str) -> JournalError:
    """The error for a journal that is not what was written."""
    return JournalError(f"{path} is damaged: {what}; {REMEDY}")
