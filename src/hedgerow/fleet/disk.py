"""What a fleet does with its file: batches into the journal, rows of keys into their states, memory made free.

A batch of labelled rows is in the journal before it is learned. Rows that a key has learned go to its state when it
leaves memory, or when the journal has grown long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hedgerow.core.interrupts import uninterrupted
from hedgerow.fleet.batch import Batch
from hedgerow.fleet.holder import Holder
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.keys import Key
from hedgerow.fleet.store import FORMAT, Store
from hedgerow.live.errors import JournalError

BASE = "base.safetensors"  # the file of the model that all keys start from
JOURNAL = 64 * 2**20  # bytes of the journal beyond which states are written, so that it becomes shorter


class Disk:
    """The file of a fleet, and the keys in memory whose rows are not all in it yet."""

    def __init__(self, store: Store, holder: Holder) -> None:
        self.store, self.holder = store, holder

    def begin(self, sync: str | None) -> None:
        """A new file says what it is (`sync` given); one that was there has to be whole, and of this base."""
        store, digest = self.store, self.holder.base.digest.hex()
        with store.errors():
            if sync is not None:
                with store.transaction():
                    store.set_meta("about", {"format": FORMAT, "base": digest, "sync": sync})
            about = store.meta("about")
            folder = store.path.parent
            if not isinstance(about, dict) or about.get("format") != FORMAT:
                raise JournalError(f"{folder}: not a fleet that this hedgerow can read: upgrade")
            if about["base"] != digest:
                raise JournalError(f"{folder}: its {BASE} is not the one that its keys belong to; restore it")
            store.set_sync(about["sync"])
            store.verify()

    def note(self, batch: Batch, mark: Any) -> int:
        """The batch is in the journal; keys with the oldest rows there are written where it has grown long."""
        store, holder, data = self.store, self.holder, batch.to_bytes()
        written: list[Key] = []
        with store.transaction():
            if store.journal_bytes + len(data) > JOURNAL and holder.dirty:
                written = holder.write(list(holder.dirty)[: 2 * len(batch) + 1])
                gone = set(written)
                left = next((first for key, first in holder.dirty.items() if key not in gone), None)
                store.trim(store.totals["last"] + 1 if left is None else left)
            if mark is not None:
                store.set_meta("mark", mark)
            number = store.note(data)
        holder.written(written)
        return number

    def make_place(self) -> None:
        """Keys that were not asked for lately leave, if memory is short."""
        keys = self.holder.too_many()
        if keys:
            self.write(keys)
            self.holder.leave(keys)

    def write(self, keys: Sequence[Key]) -> None:
        """What these keys have learned goes to their states."""
        dirty = [key for key in keys if key in self.holder.dirty]
        if dirty:
            with uninterrupted():
                with self.store.transaction():
                    written = self.holder.write(dirty)
                self.holder.written(written)

    def flush(self) -> None:
        """The same of all keys; the journal is empty then."""
        with uninterrupted():
            self.write(list(self.holder.dirty))
            with self.store.transaction():
                self.store.trim(self.store.totals["last"] + 1)

    def state(self, key: Key) -> KeyState:
        """All that a key has learned, as the file has it now."""
        if key in self.holder.held:
            self.write([key])
        return self.holder.stored_state(key)[1]
