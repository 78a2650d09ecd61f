"""What a run says: predictions as JSON lines, counts as a line of words."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array

if TYPE_CHECKING:
    from hedgerow.live.journal import Model
    from hedgerow.live.report import Scores

DIGITS = 6  # of a probability
Say = Callable[[str], None]


def prediction_lines(
    rows: Array,
    lines: Array,
    codes: Array,
    classes: Sequence[Any] | Array,
    probabilities: Array,
    *,
    labels: Sequence[Any] | None = None,
    ids: Sequence[str] | None = None,
    proba: bool = False,
) -> bytes:
    """Predictions as JSON, a line a row: what `json.dumps(record, ensure_ascii=False)` makes of each record.

    A record has the id (if there is one), row, line, prediction, its probability and perhaps those of all classes, and,
    where the label is known, label and correct. `codes` are the places of the predictions in `classes`, the columns of
    `probabilities`, which are rounded as NumPy rounds.

    >>> text = prediction_lines([1], [2], np.array([0]), ["mug", "pan"], np.array([[0.75, 0.25]]), labels=["pan"])
    >>> print(text.decode(), end="")
    {"row": 1, "line": 2, "prediction": "mug", "probability": 0.75, "label": "pan", "correct": false}
    """
    known = [label.item() if isinstance(label, np.generic) else label for label in classes]
    codes, P = np.asarray(codes, np.intp), np.round(np.asarray(probabilities, np.float64), DIGITS)
    places, named = codes.tolist(), list(map(_json, known))
    columns = {"prediction": [named[code] for code in places], "probability": _floats(P[np.arange(len(codes)), codes])}
    if proba:
        every = {str(label): _floats(P[:, j]) for j, label in enumerate(known)}  # of two alike, as in a dict, the last
        record = ", ".join(f"{_json(name)}: ".replace("%", "%%") + "%s" for name in every)
        columns["probabilities"] = [f"{{{record}}}" % each for each in zip(*every.values(), strict=True)]
    answer = lru_cache(None, typed=True)(lambda label, code: _answer(label, "correct", known[code] == label))
    return _lines(rows, lines, ids, columns, None if labels is None else map(answer, labels, places))


def number_lines(
    rows: Array,
    lines: Array,
    P: Array,
    *,
    labels: Sequence[float | None] | None = None,
    ids: Sequence[str] | None = None,
) -> bytes:
    """Predicted numbers and their intervals (P: value, half width) as JSON, a line a row.

    >>> text = number_lines([1], [2], np.array([[4.0, 0.5]]), labels=[4.25], ids=["a"])
    >>> print(text.decode(), end="")
    {"id": "a", "row": 1, "line": 2, "prediction": 4.0, "low": 3.5, "high": 4.5, "label": 4.25, "inside": true}
    """
    value, half = P[:, 0], P[:, 1]
    columns = {"prediction": _floats(value), "low": _floats(value - half), "high": _floats(value + half)}
    pairs = zip(labels or (), value.tolist(), half.tolist(), strict=False)
    answers = (_answer(label, "inside", label is not None and abs(label - v) <= h) for label, v, h in pairs)
    return _lines(rows, lines, ids, columns, None if labels is None else answers)


def _lines(rows: Array, lines: Array, ids: Sequence[str] | None, columns: dict[str, Any], answers: Any) -> bytes:
    """A record a row: its places, the columns, which are JSON, and what its label says."""
    places = {} if ids is None else {"id": list(map(encode_basestring, ids))}
    places |= {"row": np.asarray(rows).tolist(), "line": np.asarray(lines).tolist()}
    record = ", ".join(f'"{name}": %s' for name in places | columns) + ("" if answers is None else "%s")
    values = [*places.values(), *columns.values(), *(() if answers is None else [list(answers)])]
    text = (f"{{{record}}}\n" * len(places["row"])) % tuple(chain.from_iterable(zip(*values, strict=True)))
    return text.encode()


def _answer(label: Any, outcome: str, right: Any) -> str:
    return "" if label is None else f', "label": {_json(label)}, "{outcome}": {_json(bool(right))}'


def _floats(values: Array) -> list[str]:
    return json.dumps(values.tolist())[1:-1].split(", ") if len(values) else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


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

    def words(self, model: Model, scores: Scores, began: float, before: int, left: float | None = None) -> str:
        """The status line: rows, how fast since the run `began` after so many `before`, mistakes in all and lately, the
        most trusted expert; `left` of the input."""
        parts = [count(self.rows, "row")]
        passed = time.monotonic() - began
        if passed > 0.5 and self.rows > before:
            parts.append(f"{(self.rows - before) / passed:,.0f} rows/s")
            if left is not None and 0 < left < 1:
                parts.append(f"about {_time(passed * left / (1 - left))} left")
        labels, mistakes, lately = scores.labels, scores.mistakes, len(scores.window)
        if scores.recent:  # errors of numbers
            rmse, mae = math.sqrt(scores.squared / labels), scores.absolute / labels
            parts.append(f"RMSE {rmse:.4g}, MAE {mae:.4g} in {labels} labelled")
            parts.append(f"{1 - mistakes / labels:.1%} inside their {next(iter(model.coverage_)):.0%} intervals")
            if labels > lately:
                parts.append(f"RMSE {math.sqrt(sum(scores.recent) / lately):.4g} of the last {lately}")
        elif labels:
            parts.append(f"{count(mistakes, 'mistake')} in {labels} labelled ({mistakes / labels:.1%})")
            if labels > lately:
                parts.append(f"{sum(scores.window) / lately:.1%} of the last {lately}")
        if len(model.expert_names_) > 1:
            best, weight = max(model.weights_.items(), key=lambda pair: pair[1])
            parts.append(f"most trusted: {best} ({weight:.0%})")
        if self.new_classes:
            parts.append(count(self.new_classes, "new class", "new classes"))
        if self.repeated:
            parts.append(f"{count(self.repeated, 'row')} that came before, by the id, and were not learned again")
        if self.skipped:
            parts.append(f"{count(self.skipped, 'bad row')} skipped")
        return " · ".join(parts)


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "row"), count(2, "class", "classes")
    ('1 row', '2 classes')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
