"""What leaves the journal: answered events that recovery no longer needs, beyond what the settings keep."""

from __future__ import annotations

from hedgerow.live.snapshots import Snapshots
from hedgerow.live.steps import SNAPSHOT
from hedgerow.live.writer import Writer

# "+step": by number, not by the index of steps, which would look at every answer
AT_ONCE = 2000  # events that go in one transaction: nobody waits long for it
LOOK_EVERY = 32  # commits between two looks at age and size


def apply(writer: Writer, snapshots: Snapshots) -> None:
    """Delete some of what may go, within the transaction that is open. Recovery needs all steps after `floor`."""
    journal, settings = writer.journal, writer.settings
    if not journal.open_transaction:
        return
    floor = snapshots.oldest
    excess = journal.totals["answer"][0] - settings.keep_events
    if excess > min(AT_ONCE // 2, settings.keep_events // 10):
        _delete(writer, floor, min(excess, AT_ONCE), None)
    if journal.commits % LOOK_EVERY:
        return
    if settings.keep_seconds is not None:
        _delete(writer, floor, AT_ONCE, writer.now() - settings.keep_seconds)
    if settings.max_bytes is not None and journal.used_bytes > settings.max_bytes:
        gone = _delete(writer, floor, AT_ONCE, None)
        if not gone and writer.steps.since:
            writer.snapshot()  # so that the floor rises


def _delete(writer: Writer, floor: int, most: int, before: float | None) -> int:
    journal = writer.journal
    age = "" if before is None else "AND time < ?"
    values = (floor, *(() if before is None else (before,)), most)
    found = journal.rows(f"SELECT number FROM answer WHERE +step <= ? {age} ORDER BY number LIMIT ?", values)
    if not found:
        return 0
    last = found[-1][0]
    which = f"number IN (SELECT number FROM answer WHERE +step <= ? AND number <= ? {age})"
    given = (floor, last, *(() if before is None else (before,)))
    for table in ("features", "event"):
        journal.delete(table, which, given)
    steps = f"SELECT step FROM answer WHERE +step <= ? AND number <= ? {age}"
    done = f"number IN ({steps}) AND last <= ?"  # a block of which some events stay is still needed to tell them apart
    journal.delete("step", done, (*given, last))
    journal.delete(
        "step", f"number < (SELECT max(step) FROM ({steps})) AND kind = ? AND number < ?", (*given, SNAPSHOT, floor)
    )
    journal.delete("answer", f"+step <= ? AND number <= ? {age}", given)
    return len(found)
