"""Predictions as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array

DIGITS = 6  # of a probability


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
    codes, P = np.asarray(codes, np.intp), np.asarray(probabilities, np.float64)
    places, named = codes.tolist(), list(map(_json, known))
    record = '"row": %d, "line": %d, "prediction": %s, "probability": %s'
    columns = [np.asarray(rows, np.int64).tolist(), np.asarray(lines, np.int64).tolist()]
    columns += [[named[code] for code in places], _rounded(P[np.arange(len(codes)), codes])]
    if ids is not None:
        record, columns = '"id": %s, ' + record, [list(map(encode_basestring, ids)), *columns]
    if proba:
        every = {str(label): _rounded(P[:, j]) for j, label in enumerate(known)}  # of two alike, as in a dict, the last
        record += ', "probabilities": {' + ", ".join(f"{_json(name)}: ".replace("%", "%%") + "%s" for name in every)
        record, columns = record + "}", [*columns, *every.values()]
    if labels is not None:
        answer = lru_cache(None, typed=True)(lambda label, code: _answer(label, known[code]))
        record, columns = record + "%s", [*columns, list(map(answer, labels, places))]
    text = (f"{{{record}}}\n" * len(codes)) % tuple(chain.from_iterable(zip(*columns, strict=True)))
    return text.encode()


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
    text = []
    for i, (value, half) in enumerate(P.tolist()):
        record: dict[str, Any] = {} if ids is None else {"id": ids[i]}
        record |= {"row": int(rows[i]), "line": int(lines[i])}
        record |= {"prediction": value, "low": value - half, "high": value + half}
        if labels is not None and (label := labels[i]) is not None:
            record |= {"label": label, "inside": abs(label - value) <= half}
        text.append(_json(record) + "\n")
    return "".join(text).encode()


def _answer(label: Any, prediction: Any) -> str:
    return "" if label is None else f', "label": {_json(label)}, "correct": {_json(bool(prediction == label))}'


def _rounded(p: Array) -> list[str]:
    return json.dumps(np.round(p, DIGITS).tolist())[1:-1].split(", ") if len(p) else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
