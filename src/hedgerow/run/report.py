"""What a run says: predictions as JSON lines, counts as a line of words."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import require
from hedgerow.core.values import count, plain

if TYPE_CHECKING:
    import msgspec

    from hedgerow.live.report import Scores
    from hedgerow.task import Model
else:
    msgspec = require("msgspec", "cli")

DIGITS = 6  # of a probability
Say = Callable[[str], None]


class Line(msgspec.Struct, omit_defaults=True):
    """A row of the output; what is None is left out."""

    id: str | None = None
    row: int | None = None
    line: int | None = None
    prediction: Any = None
    probability: float | None = None
    probabilities: dict[str, float] | None = None
    low: float | None = None
    high: float | None = None
    label: Any = None
    correct: bool | None = None
    inside: bool | None = None


_encode = msgspec.json.Encoder(enc_hook=str).encode_lines  # a number that is not finite is null


def prediction_lines(
    rows: Array,
    lines: Array,
    codes: Array,
    scale: Sequence[Any] | Array,
    P: Array,
    *,
    labels: Sequence[Any] | None = None,
    ids: Sequence[str] | None = None,
    proba: bool = False,
    task: str = "classes",
) -> bytes:
    """Predictions as JSON, a line a row.

    A record has the id (if there is one), row, line, prediction, its probability and perhaps those of all classes, and,
    where the label is known, label and correct. `codes` are the places of the predictions in `scale`, the classes; P
    has their probabilities, which are rounded as NumPy rounds. With the task "numbers" P has the number and half the
    width of its interval, and a record low, high and inside.

    >>> text = prediction_lines([1], [2], np.array([0]), ["mug", "pan"], np.array([[0.75, 0.25]]), labels=["pan"])
    >>> print(text.decode(), end="")
    {"row":1,"line":2,"prediction":"mug","probability":0.75,"label":"pan","correct":false}
    >>> text = prediction_lines([1], [2], [0], [0.9], np.array([[4.0, 0.5]]), labels=[4.25], ids=["a"], task="numbers")
    >>> print(text.decode(), end="")
    {"id":"a","row":1,"line":2,"prediction":4.0,"low":3.5,"high":4.5,"label":4.25,"inside":true}
    """
    P = np.asarray(P, np.float64)
    columns: dict[str, Any] = {"row": np.asarray(rows).tolist(), "line": np.asarray(lines).tolist()}
    if task == "numbers":
        value = P[:, 0]
        low = value - P[:, 1]
        high = value + P[:, 1]
        columns |= {"prediction": value.tolist(), "low": low.tolist(), "high": high.tolist()}
        judge = zip(labels or (), value.tolist(), P[:, 1].tolist(), strict=False)
        columns["inside"] = labels and [
            None if label is None else bool(abs(label - v) <= half) for label, v, half in judge
        ]
    else:
        known = [plain(label) for label in scale]
        P = np.round(P, DIGITS)
        places = np.asarray(codes, np.intp)
        shares = P[np.arange(len(P)), places]
        named = [known[code] for code in places.tolist()]
        columns |= {"prediction": named, "probability": shares.tolist()}
        columns["correct"] = labels and [
            None if label is None else bool(name == label)
            for name, label in zip(named, labels, strict=True)
        ]
        if proba:
            names = list(map(str, known))
            columns["probabilities"] = [dict(zip(names, row, strict=True)) for row in P.tolist()]
    columns |= {"id": ids, "label": labels}
    values = (columns.get(name) for name in Line.__struct_fields__)
    return _encode(list(map(Line, *(repeat(None) if each is None else each for each in values))))


@dataclass
class Tally:
    """Counts of all runs of one journal, or of this run."""

    rows: int = 0
    skipped: int = 0
    new_classes: int = 0
    repeated: int = 0
    line: int = 0

    def to_bytes(self) -> bytes:
        """For a journal."""
        return json.dumps(asdict(self)).encode()

    def words(
        self,
        model: Model,
        scale: Sequence[Any],
        scores: Scores,
        began: float,
        before: int,
        left: float | None = None,
    ) -> str:
        """The status line: rows, how fast since the run `began` after so many `before`, mistakes in all and lately, the
        most trusted expert; `left` of the input."""
        parts = [count(self.rows, "row")]
        passed = time.monotonic() - began
        if passed > 0.5 and self.rows > before:
            parts.append(f"{(self.rows - before) / passed:,.0f} rows/s")
            if left is not None and 0 < left < 1:
                parts.append(f"about {_time(passed * left / (1 - left))} left")
        if scores.labels:
            overall, lately = scores.words(scale)
            parts.append(overall)
            if scores.labels > len(scores.window):
                parts.append(lately)
        if len(model.expert_names_) > 1:
            best, weight = max(model.weights_.items(), key=lambda pair: pair[1])
            parts.append(f"most trusted: {best} ({weight:.0%})")
        if self.new_classes:
            parts.append(count(self.new_classes, "new class", "new classes"))
        if self.repeated:
            parts.append(
                f"{count(self.repeated, 'row')} that came before, by the id, and were not learned again"
            )
        if self.skipped:
            parts.append(f"{count(self.skipped, 'bad row')} skipped")
        return " · ".join(parts)


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
