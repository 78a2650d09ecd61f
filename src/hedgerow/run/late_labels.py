"""Labels by id, given when their row has come: known ids at once, others when they are known.

The order is the same however a run was cut into pieces: before a block, all labels that can be read, in the order of
their file; after it, those that waited for its rows, in the order of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.data.row_blocks import Bad, Late
from hedgerow.live import answers
from hedgerow.live.answers import Labelled
from hedgerow.run.engine import Engine
from hedgerow.run.label_file import LabelFile

HELD = 100_000  # labels that wait for their rows
UNUSED = (answers.CONFLICT, answers.GIVEN_UP, answers.REFUSED)


class LateLabels:
    """What was read and not used yet: by id its label, its line, and the place from where it would be read again."""

    def __init__(self, engine: Engine, file: LabelFile | None, learned: Callable[[Labelled], None]) -> None:
        self._engine, self._file, self._learned = engine, file, learned
        self._held: dict[str, tuple[Any, int, dict[str, int]]] = {}

    def before(self, final: bool = False) -> list[Bad]:
        """Read on, and give what can be given; the labels that cannot be used."""
        bad: list[Bad] = []
        file = self._file
        while file is not None and len(self._held) < HELD:
            place, found = file.place, False
            for item in file.read(final):
                found = True
                if isinstance(item, Bad):
                    bad.append(item)
                    continue
                result = self.give(item)
                if result is None:
                    first = self._held.setdefault(item.id, (item.label, item.line, place))[0]
                    if first != item.label:
                        bad.append(Bad(item.line, f"label of {item.id!r}: {first!r} was given for it before", item.id))
                elif result.status in UNUSED:
                    bad.append(_unused(item, result))
                if len(self._held) >= HELD:
                    break
            if not found or final:
                break
        if final:
            bad += [Bad(line, f"no row has the id {id!r}", id) for id, (_, line, _) in self._held.items()]
            self._held.clear()
        return bad

    def after(self, ids: Sequence[str]) -> list[Bad]:
        """Give what waited for these rows."""
        bad = []
        for id in ids if self._held else ():
            if id in self._held:
                label, line, _ = self._held.pop(id)
                item = Late(line, id, label)
                result = self.give(item)
                if result is not None and result.status in UNUSED:
                    bad.append(_unused(item, result))
        return bad

    def give(self, item: Late) -> Labelled | None:
        """One label; None if its id is not known (yet)."""
        try:
            result = self._engine.label(item.id, item.label)
        except InputError as error:
            return Labelled(item.id, answers.REFUSED, item.label, str(error))
        if result.status == answers.UNKNOWN:
            return None
        if result.status == answers.LEARNED:
            self._learned(result)
        return result

    def place(self) -> bytes | None:
        """From where labels must be read again after a restart; those that were learned are recognised."""
        if self._file is None:
            return None
        oldest = next((place for _, _, place in self._held.values()), self._file.place)
        return json.dumps(oldest).encode()


def _unused(item: Late, result: Labelled) -> Bad:
    return Bad(item.line, f"label of {item.id!r}: {result.text or result.status}", item.id)
