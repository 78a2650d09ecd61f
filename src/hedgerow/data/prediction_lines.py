"""Predictions as JSON lines, a block at a time: by pyarrow if that is installed, else row by row, the same bytes.

A line is what `json.dumps(record, ensure_ascii=False)` makes of the record: id (if there is one), row, line,
prediction, its probability and perhaps those of all classes, and, where the label is known, label and correct.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array

DIGITS = 6
_SCALE = 10.0**DIGITS
# Python writes 1e-05 where pyarrow writes 0.00001, and 1.0 where it writes 1.
_OTHERWISE = {k: repr(k / _SCALE) for k in (*range(100), int(_SCALE))}


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
    """One line of JSON a row; `codes` are the places of the predictions in `classes`, the columns of `probabilities`.

    >>> found = prediction_lines([1], [2], np.array([0]), ["mug", "pan"], np.array([[0.75, 0.25]]), labels=["pan"])
    >>> print(found.decode(), end="")
    {"row": 1, "line": 2, "prediction": "mug", "probability": 0.75, "label": "pan", "correct": false}
    """
    known = [label.item() if isinstance(label, np.generic) else label for label in classes]
    rows, lines = np.asarray(rows, np.int64), np.asarray(lines, np.int64)
    codes, P = np.asarray(codes, np.intp), np.asarray(probabilities, np.float64)
    block = (rows, lines, codes, known, P, labels, ids, proba)
    if not len(rows):
        return b""
    return _by_columns(*block) or _by_rows(*block)


def _by_rows(
    rows: Array,
    lines: Array,
    codes: Array,
    classes: list[Any],
    P: Array,
    labels: Sequence[Any] | None,
    ids: Sequence[str] | None,
    proba: bool,
) -> bytes:
    texts, names = [], [str(label) for label in classes]
    row_of, line_of, code_of, values = rows.tolist(), lines.tolist(), codes.tolist(), P.tolist()
    for i, code in enumerate(code_of):
        record: dict[str, Any] = {} if ids is None else {"id": ids[i]}
        prediction, label = classes[code], None if labels is None else labels[i]
        record |= {"row": row_of[i], "line": line_of[i], "prediction": prediction}
        record["probability"] = round(values[i][code], DIGITS)
        if proba:
            record["probabilities"] = {name: round(p, DIGITS) for name, p in zip(names, values[i], strict=True)}
        if label is not None:
            record |= {"label": label, "correct": bool(prediction == label)}
        texts.append(_json(record))
    return ("\n".join(texts) + "\n").encode()


def _by_columns(
    rows: Array,
    lines: Array,
    codes: Array,
    classes: list[Any],
    P: Array,
    labels: Sequence[Any] | None,
    ids: Sequence[str] | None,
    proba: bool,
) -> bytes | None:
    """None where only a row by itself can be written: no pyarrow, a value that is no probability, mixed labels."""
    names = [str(label) for label in classes]
    if not ((P >= 0) & (P <= 1) & ~np.signbit(P)).all() or (proba and len(set(names)) < len(names)):
        return None
    try:
        pa, pc = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.compute")
    except ImportError:
        return None
    ends = _ends(pa, codes, classes, labels)
    if ends is None:
        return None
    columns: list[Any] = [] if ids is None else ['{"id": ', pa.array(list(map(encode_basestring, ids)), pa.string())]
    columns += ['{"row": ' if ids is None else ', "row": ', pa.array(rows).cast(pa.string())]
    columns += [', "line": ', pa.array(lines).cast(pa.string())]
    said = pa.array([f', "prediction": {_json(label)}, "probability": ' for label in classes], pa.string())
    columns += [said.take(pa.array(codes)), _rounded(pa, P[np.arange(len(codes)), codes])]
    if proba:
        for j, name in enumerate(names):
            columns += [(", " if j else ', "probabilities": {') + f"{_json(name)}: ", _rounded(pa, P[:, j])]
        columns.append("}")
    columns.append(ends)
    texts = [pa.scalar(column) if isinstance(column, str) else column for column in columns]
    whole = pc.binary_join_element_wise(*texts, "")
    _, offsets, data = whole.buffers()
    bounds = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1]
    return bytes(memoryview(data)[int(bounds[0]) : int(bounds[-1])])


def _ends(pa: Any, codes: Array, classes: list[Any], labels: Sequence[Any] | None) -> Any:
    """What stands after the probabilities, written once for each label and whether the prediction is right."""
    if labels is None:
        return "}\n"
    kinds = set(map(type, labels)) - {type(None)}
    if kinds and kinds != set(map(type, classes)):
        return None  # 1, 1.0 and True are one key and three texts
    number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    given = np.array(list(map(number.__getitem__, labels)))
    place = {label: code for code, label in enumerate(classes)}
    right = np.array([place.get(label, -1) for label in number])[given] == codes
    texts = []
    for label in number:
        known = f', "label": {_json(label)}, "correct": '
        texts += ["}\n", "}\n"] if label is None else [f"{known}false}}\n", f"{known}true}}\n"]
    return pa.array(texts, pa.string()).take(pa.array(2 * given + right))


def _rounded(pa: Any, p: Array) -> Any:
    """Numbers between 0 and 1, rounded, as Python writes them."""
    scaled = p * _SCALE
    whole = np.rint(scaled)
    # Half-way between two, the product may have been rounded to the wrong side.
    for i in np.flatnonzero(np.abs(scaled - np.floor(scaled) - 0.5) < 1e-9).tolist():
        whole[i] = round(round(float(p[i]), DIGITS) * _SCALE)
    texts = pa.array(whole / _SCALE).cast(pa.string())
    other = (whole < 100) | (whole == _SCALE)
    if not other.any():
        return texts
    instead = pa.array([_OTHERWISE[int(k)] for k in whole[other]], pa.string())
    return importlib.import_module("pyarrow.compute").replace_with_mask(texts, pa.array(other), instead)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
