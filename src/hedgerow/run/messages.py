"""Messages of a broker as blocks of rows: each is a JSON object, or named fields, and has a place of its own."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hedgerow.data.row_blocks import Bad, RowBlock, Wanted, open_rows
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.run.feeds import wanted_of
from hedgerow.run.job import Job

PLACE = "message id"  # the id of a row that has none of its own; no column of a user's is called so by accident
AT_ONCE = 256  # messages that are taken, committed and acknowledged together


class Messages:
    """Makes blocks of messages. Without an id column a message's own id names its row.

    A message that has an id and a label and no feature is the label of an earlier one.
    """

    def __init__(self, clf: OnlineTransferClassifier, job: Job, called: str) -> None:
        self._wanted: Wanted = wanted_of(clf, job, None if job.id else PLACE)
        self._own_ids, self._called, self._count = job.id is None, called, 0
        self.ignored: tuple[str, ...] = ()

    def blocks(self, messages: Sequence[tuple[str, bytes | Mapping[str, str]]]) -> Iterator[RowBlock]:
        """Of messages in order: (id, JSON text or fields)."""
        text = b"".join(self._line(id, content) for id, content in messages)
        with open_rows("-", self._wanted, format="jsonl", size=len(messages), descriptor=io.BytesIO(text)) as rows:
            for block in rows:
                self.ignored = tuple(name for name in rows.ignored if name != PLACE)
                numbers = block.rows + self._count
                bad = [Bad(b.line, f"message {messages[b.line - 1][0]}: {b.reason}", b.text) for b in block.bad]
                yield replace(block, rows=numbers, bad=bad, file=self._called)
            self._count += len(messages)

    def _line(self, id: str, content: bytes | Mapping[str, str]) -> bytes:
        fields: Any = content
        if isinstance(content, bytes):
            if not self._own_ids:
                return content.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
            try:
                fields = json.loads(content)
            except (ValueError, RecursionError):
                return b"{not JSON: " + content[:1000].replace(b"\n", b" ") + b"\n"
        if isinstance(fields, Mapping) and self._own_ids:
            fields = {**fields, PLACE: id}
        return json.dumps(fields).encode() + b"\n"
