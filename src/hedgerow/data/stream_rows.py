"""Streams of rows from CSV and JSON lines: columns matched with a model's features, labels with its classes.

Rows come one at a time and nothing is kept, so a stream may be longer than memory and may never end. A row that cannot
be used becomes a `BadRow` that says which line and why; the reader goes on with the next one.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown

SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
FORMATS = ("csv", "jsonl")


@dataclass(frozen=True)
class Instance:
    """A usable row: `row` counts instances from 1, `line` is the line of the input; label None: not known."""

    row: int
    line: int
    x: Array
    label: Any = None


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used."""

    line: int
    reason: str


@dataclass(frozen=True)
class Wanted:
    """What a model expects of a row. Without names, columns are taken in their order."""

    width: int
    names: Sequence[str] | None = None
    label: str | None = None
    classes: Sequence[Any] | Array = ()


class Rows:
    """Instances and bad rows of an input. The header of a CSV is read, and checked, at once.

    `ignored` are columns that the model does not know; they are left out.

    >>> rows = Rows(["a,b,kind", "1,2,mug", "1,x,mug", "3,4,"], Wanted(2, ["b", "a"], "kind", ["mug", "pan"]), "csv")
    >>> for row in rows: print(row)
    Instance(row=1, line=2, x=array([2., 1.]), label='mug')
    BadRow(line=3, reason="column 'b': 'x' is not a number")
    Instance(row=2, line=4, x=array([4., 3.]), label=None)
    """

    def __init__(self, lines: Iterable[str], wanted: Wanted, format: str | None = None) -> None:
        self.wanted = wanted
        self.ignored: tuple[str, ...] = ()
        self._label = label_reader(wanted.classes)
        source = iter(lines)
        first = next(source, "")
        self.format = format or ("jsonl" if first.lstrip("\ufeff \t")[:1] in ("{", "[") else "csv")
        if self.format not in FORMATS:
            raise unknown("format", self.format, FORMATS)
        everything = chain([first], source) if first else source
        self._count = 0
        self._rows = self._of_csv(everything) if self.format == "csv" else self._of_json(everything)

    def __iter__(self) -> Iterator[Instance | BadRow]:
        return self._rows

    def _made(self, line: int, parse: Callable[[], tuple[Array, Any]]) -> Instance | BadRow:
        try:
            x, label = parse()
        except InputError as error:
            return BadRow(line, str(error))
        self._count += 1
        return Instance(self._count, line, x, label)

    # -- CSV ----------------------------------------------------------------------------------------------------

    def _of_csv(self, lines: Iterable[str]) -> Iterator[Instance | BadRow]:
        reader = csv.reader(lines, strict=True)
        try:
            header = next((row for row in reader if row), None)
        except csv.Error as error:
            raise InputError(f"line {reader.line_num}: not a CSV header ({error})") from error
        if header is None:
            raise InputError("the input is empty: a CSV begins with a line of column names")
        header = [name.strip() for name in header]
        return self._csv_rows(reader, header, *self._places(header))

    def _csv_rows(
        self, reader: Any, header: list[str], places: list[int], label: int | None
    ) -> Iterator[Instance | BadRow]:
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield BadRow(line, f"not CSV ({error})")
                continue
            if cells:
                yield self._made(line, partial(self._cells, cells, header, places, label))

    def _cells(self, cells: list[str], header: list[str], places: list[int], label: int | None) -> tuple[Array, Any]:
        if len(cells) != len(header):
            raise InputError(f"{len(cells)} fields, the header has {len(header)}")
        x = np.array([_number(cells[i], header[i]) for i in places])
        return x, None if label is None else self._label(cells[label])

    def _places(self, header: list[str]) -> tuple[list[int], int | None]:
        """Where the features stand, in the model's order, and where the label stands."""
        doubled = sorted({name for name in header if header.count(name) > 1})
        if doubled:
            raise InputError(f"the column name {doubled[0]!r} stands in the header twice; rename one of them")
        wanted, names = self.wanted, list(self.wanted.names or ())
        if wanted.label is not None and wanted.label not in header:
            raise unknown("label column", wanted.label, header)
        label = None if wanted.label is None else header.index(wanted.label)
        if wanted.names is None:
            places = [i for i in range(len(header)) if i != label]
            if len(places) != wanted.width:
                raise InputError(
                    f"{len(places)} feature columns, but the model was fitted on {wanted.width} (without names)"
                )
            return places, label
        missing = [name for name in names if name not in header]
        if missing:
            raise InputError(f"{_these('column', missing)} missing; the input has {_list(header)}")
        self.ignored = tuple(name for name in header if name not in names and name != wanted.label)
        return [header.index(name) for name in names], label

    # -- JSON lines ---------------------------------------------------------------------------------------------

    def _of_json(self, lines: Iterable[str]) -> Iterator[Instance | BadRow]:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield self._made(number, partial(self._object, line))

    def _object(self, line: str) -> tuple[Array, Any]:
        try:
            found = json.loads(line.lstrip("\ufeff"))
        except ValueError as error:
            raise InputError(f"not JSON ({error})") from error
        if isinstance(found, list) and self.wanted.names is None:
            found = dict(enumerate(found))
        if not isinstance(found, dict):
            raise InputError("not a JSON object of column names and values")
        label = None if self.wanted.label is None else self._label(found.pop(self.wanted.label, None))
        names: Sequence[Any] = self.wanted.names if self.wanted.names is not None else list(found)
        if len(names) != self.wanted.width:
            raise InputError(f"{len(names)} features, but the model was fitted on {self.wanted.width} (without names)")
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(f"{_these('column', missing)} missing")
        if not self.ignored and len(found) > len(names):
            self.ignored = tuple(name for name in found if name not in set(names))
        return np.array([_number(found[name], name) for name in names]), label


def label_reader(classes: Sequence[Any] | Array) -> Callable[[Any], Any]:
    """A function from a cell or JSON value to a label of the classes' own type; empty and null are None.

    >>> read = label_reader(np.array([0, 1]))
    >>> read("1"), read(1.0), read(" "), read(None)
    (1, 1, None, None)
    """
    plain = [label.item() if isinstance(label, np.generic) else label for label in classes]
    kind: type = object
    for kind in (bool, int, float, str):
        if plain and all(type(label) is kind for label in plain):
            break
    else:
        kind = str if not plain else object  # no class yet: text; tuples and mixtures: by their printed form
    printed = {str(label): label for label in plain}

    def read(value: Any) -> Any:
        if value is None or (isinstance(value, str) and not value.strip()) or value != value:
            return None
        text = str(value).strip()
        if any("\ud800" <= letter <= "\udfff" for letter in text):  # bytes that were not UTF-8 come as surrogates
            raise InputError("the label is not UTF-8 text")
        if kind is str:
            return text
        if kind in (bool, object):
            if text in printed or text.title() in printed:
                return printed.get(text, printed.get(text.title()))
            raise InputError(f"label {text!r} is not one of {_list(list(printed))}")
        try:
            number = float(text)
        except ValueError:
            raise InputError(f"label {text!r} is not a number, as the model's classes are") from None
        if kind is int and number != math.floor(number):
            raise InputError(f"label {text!r} is not a whole number, as the model's classes are")
        return int(number) if kind is int else number

    return read


def _number(value: Any, name: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise InputError(f"column {name!r}: missing value")
    try:
        if isinstance(value, list | dict):
            raise ValueError
        number = float(value)
    except ValueError:
        raise InputError(f"column {name!r}: {value!r} is not a number") from None
    if not math.isfinite(number):
        raise InputError(f"column {name!r}: {value} is not a finite number")
    return number


def _list(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _these(noun: str, names: Sequence[Any]) -> str:
    return f"{noun} {names[0]!r} is" if len(names) == 1 else f"{noun}s {_list([repr(n) for n in names])} are"
