"""JSON lines: rows that are read, predictions that are written.

A row is an object of column names and values or, for a model without names, a list. An object that has an id and a
label and no feature at all is a label that comes later than its row. The json module says what a line means; orjson,
if that is installed, reads what both read alike, and is several times as fast.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.values import composed
from hedgerow.rows.inputs import TextLines
from hedgerow.rows.records import MOST_TEXT, Bad, Late, Place, Records, Row, TextReader
from hedgerow.rows.wanted import Wanted, id_text, listed, numbers, these, utf8

LARGE = 2.0**63  # a whole number beyond is a float to orjson
BLANK = object()  # a line without a value
DIGITS = 6  # of a probability that is written


class JsonRows(TextReader):
    """One file or stream; `exact`: a column that is not wanted is refused, not left out."""

    def __init__(self, text: TextLines, exact: bool = False) -> None:
        self._text, self._exact, self._loads = text, exact, fast_loads()
        self._texts = False
        self._spelling: dict[str, str] = {}
        self._named: tuple[str | None, ...] = ()

    @property
    def first(self) -> Any:
        """The value of the first line that is not blank; None if there is none or it is not JSON."""
        text = self._text
        text.first_letter()
        for i in range(len(text.ends)):
            line = text.data[text.start(i) : text.start(i + 1)]
            if line.strip():
                try:
                    return self._parsed(line)
                except InputError:
                    return None
        return None

    def match(self, wanted: Wanted) -> None:
        """Keep what is wanted. Which columns are not shows only in the rows."""
        super().match(wanted)
        table = wanted.table
        names = wanted.names if table is None or not table.names else table.names
        self._known = None if names is None else set(names)
        self._left_out = set() if table is None else set(table.left_out)
        self._texts, self._spelling = wanted.raw or table is not None, wanted.spelling()
        self._named = (wanted.label, wanted.id)

    def _parts(self, lines: int) -> Iterator[tuple[Records, int]]:
        text, ends = self._text, self._text.ends.tolist()
        items: list[tuple[Place, Row | Bad | Late]] = []
        for i, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            line = text.line + i
            try:
                value = self._parsed(text.data[begin:end])
                if value is BLANK:
                    continue
                item: Row | Bad | Late = self._item(value, line)
            except InputError as error:
                item = Bad(line, str(error), text.shown(i, i + 1, MOST_TEXT))
            items.append((Place(line, text.at + end, line + 1), item))
        yield Records.gathered(items, self._wanted, 1), lines

    def _parsed(self, line: bytes) -> Any:
        """The value of a line, names in their composed form."""
        try:
            value = self._loads(line)
            named = () if not isinstance(value, dict) else value if self._texts else self._named
            exact = all(type(cell := value.get(name)) is not float or abs(cell) < LARGE for name in named)
        except (ValueError, RecursionError):
            exact = False
        if not exact:
            text = line.decode("utf-8", "surrogateescape").lstrip("\ufeff")
            if not text.strip():
                return BLANK
            try:
                value = json.loads(text)
            except ValueError as error:
                raise InputError(f"not JSON ({error})") from error
            except RecursionError:
                raise InputError("JSON that is nested too deeply to be read") from None
        if isinstance(value, dict) and not line.isascii():
            value = {self._spelling.get(name := composed(key), name): cell for key, cell in value.items()}
        return value

    def _item(self, value: Any, line: int) -> Row | Late:
        wanted = self._wanted
        row = dict(enumerate(value)) if isinstance(value, list) and wanted.names is None else value
        if not isinstance(row, dict):
            raise InputError("not a JSON object of column names and values")
        complete = wanted.label in row and wanted.id in row
        label = None if wanted.label is None else self._label_of(row.pop(wanted.label, None))
        id = None if wanted.id is None else id_text(row.pop(wanted.id, None), wanted.id)
        if complete and wanted.width and (not row if self._known is None else self._known.isdisjoint(row)):
            if label is None:
                raise InputError("an id without features and without a label")
            return Late(line, str(id), label)
        return Row(self._values(row), label, id)

    def _values(self, row: dict[Any, Any]) -> Sequence[Any]:
        wanted = self._wanted
        if self._texts:
            return self._cells(row)
        names: Sequence[Any] = wanted.names if wanted.names is not None else list(row)
        if len(names) != wanted.width:
            raise InputError(f"{len(names)} features, but the model was fitted on {wanted.width} (without names)")
        try:
            cells = [row[name] for name in names]
        except KeyError:
            raise InputError(f"{these('column', [name for name in names if name not in row])} missing") from None
        if not self.ignored and self._known is not None and len(row) > len(names):
            others = tuple(name for name in row if name not in self._known)
            if self._exact:
                raise InputError(f"{these('column', others)} not in the first line; every line must have the same")
            self.ignored = others
        return numbers(cells, names)

    def _cells(self, row: dict[Any, Any]) -> Sequence[Any]:
        """The row as it is, or what the table makes of it: it may lack columns, but not all of them."""
        table = self._wanted.table
        if table is not None and self._known is not None:
            if self._known.isdisjoint(row):
                raise InputError(f"none of the model's columns ({listed(table.names)}) is there")
            if not self.ignored:
                self.ignored = tuple(name for name in row if name not in self._known and name not in self._left_out)
        for name, value in row.items():
            if isinstance(value, str):
                utf8(value, f"column {name!r}")
        return [row] if table is None else table.of_mapping(row)


def fast_loads() -> Callable[[bytes], Any]:
    """The parser of a line that is tried first: what it refuses, json may still read."""
    try:
        loads: Callable[[bytes], Any] = importlib.import_module("orjson").loads
    except ImportError:
        return lambda line: json.loads(line.decode())
    return loads


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
    `probabilities`.

    >>> text = prediction_lines([1], [2], np.array([0]), ["mug", "pan"], np.array([[0.75, 0.25]]), labels=["pan"])
    >>> print(text.decode(), end="")
    {"row": 1, "line": 2, "prediction": "mug", "probability": 0.75, "label": "pan", "correct": false}
    """
    known = [label.item() if isinstance(label, np.generic) else label for label in classes]
    codes, P = np.asarray(codes, np.intp), np.asarray(probabilities, np.float64)
    numbers_of_rows, numbers_of_lines = np.asarray(rows, np.int64).tolist(), np.asarray(lines, np.int64).tolist()
    heads = ["{"] * len(codes) if ids is None else [f'{{"id": {encode_basestring(id)}, ' for id in ids]
    middles = [f'"prediction": {_json(label)}, "probability": ' for label in known]
    names = {str(label): j for j, label in enumerate(known)} if proba else {}  # of two alike, as in a dict, the last
    own = _rounded(P[np.arange(len(codes)), codes])
    every = [_rounded(P[:, j]) for j in names.values()]
    keys = [f"{encode_basestring(name)}: " for name in names]
    ends: dict[tuple[type, Any, int], str] = {}
    text: list[str] = []
    for i, code in enumerate(codes.tolist()):
        line = f'{heads[i]}"row": {numbers_of_rows[i]}, "line": {numbers_of_lines[i]}, {middles[code]}{own[i]}'
        if proba:
            pairs = ", ".join([key + column[i] for key, column in zip(keys, every, strict=True)])
            line += f', "probabilities": {{{pairs}}}'
        label = None if labels is None else labels[i]
        if label is not None:
            key = (type(label), label, code)  # 1, 1.0 and True are equal, and three texts
            if key not in ends:
                ends[key] = f', "label": {_json(label)}, "correct": {_json(bool(known[code] == label))}'
            line += ends[key]
        text.append(line + "}\n")
    return "".join(text).encode()


def _rounded(p: Array) -> list[str]:
    """Numbers rounded to `DIGITS` places, as Python rounds and json writes them."""
    scaled = p * 10.0**DIGITS
    values = (np.rint(scaled) / 10.0**DIGITS).tolist()
    # Half-way between two, the product may have been rounded to the wrong side; of large ones, to any.
    for i in np.flatnonzero(~(np.abs(scaled - np.floor(scaled) - 0.5) >= 1e-9) | ~(np.abs(p) <= 1)).tolist():
        values[i] = round(float(p[i]), DIGITS)
    return list(map(repr if np.isfinite(p).all() else _json, values))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
