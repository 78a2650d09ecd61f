"""Streams of rows from CSV, TSV and JSON lines: columns matched with a model's features, labels with its classes.

Rows come one at a time and nothing is kept, so a stream may be longer than memory and may never end. A row that cannot
be used becomes a `BadRow` that says which line and why; the reader goes on with the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.data.columns import label_reader, listed, number
from hedgerow.data.csv_records import BROKEN, DELIMITERS, BadRow, Records, broken, refuse_numbers_as_names

SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
FORMATS = (*DELIMITERS, "jsonl")


@dataclass(frozen=True)
class Instance:
    """A usable row: `row` counts instances from 1, `line` is the line of the input; label None: not known."""

    row: int
    line: int
    x: Array
    label: Any = None


@dataclass(frozen=True)
class Wanted:
    """What a model expects of a row. Without names, columns are taken in their order.

    `new_classes` says whether a label that is none of the classes can be used.
    """

    width: int
    names: Sequence[str] | None = None
    label: str | None = None
    classes: Sequence[Any] | Array = ()
    new_classes: bool = True


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
        self._label = label_reader(wanted.classes, wanted.new_classes)
        source = iter(lines)
        first = next(source, "")
        self.format = format or ("jsonl" if first.lstrip("\ufeff \t")[:1] in ("{", "[") else "csv")
        if self.format not in FORMATS:
            raise unknown("format", self.format, FORMATS)
        everything = chain([first], source) if first else source
        self._count = 0
        if self.format == "jsonl":
            self._rows = self._of_json(everything)
        else:
            records = Records(everything, DELIMITERS[self.format])
            self._rows = self._of_records(records, *self._places(records.names))

    def __iter__(self) -> Iterator[Instance | BadRow]:
        return self._rows

    def _made(self, line: int, parse: Callable[[], tuple[Array, Any]]) -> Instance | BadRow:
        try:
            x, label = parse()
        except InputError as error:
            return BadRow(line, str(error))
        self._count += 1
        return Instance(self._count, line, x, label)

    # -- CSV and TSV --------------------------------------------------------------------------------------------

    def _of_records(self, records: Records, places: list[int], label: int | None) -> Iterator[Instance | BadRow]:
        features = [(i, records.names[i]) for i in places]
        used = places if label is None else [*places, label]
        for found in records:
            if isinstance(found, BadRow):
                yield found
            elif any(broken(found.cells[i]) for i in used):
                records.go_back()
                yield BadRow(found.line, BROKEN)
            else:
                yield self._made(found.line, partial(self._cells, found.cells, features, label))

    def _cells(self, cells: list[str], features: list[tuple[int, str]], label: int | None) -> tuple[Array, Any]:
        x = np.array([number(cells[i], name) for i, name in features])
        return x, None if label is None else self._label(cells[label])

    def _places(self, header: list[str]) -> tuple[list[int], int | None]:
        """Where the features stand, in the model's order, and where the label stands."""
        wanted, place = self.wanted, {name: i for i, name in enumerate(header)}
        if wanted.label is not None and wanted.label not in place:
            raise unknown("label column", wanted.label, header)
        label = None if wanted.label is None else place[wanted.label]
        if wanted.names is None:
            refuse_numbers_as_names(header)
            places = [i for i in range(len(header)) if i != label]
            if len(places) != wanted.width:
                raise InputError(
                    f"{len(places)} feature columns, but the model was fitted on {wanted.width} (without names)"
                )
            return places, label
        missing = [name for name in wanted.names if name not in place]
        if missing:
            raise InputError(f"{_these('column', missing)} missing; the input has {listed(header)}")
        known = {*wanted.names, wanted.label}
        self.ignored = tuple(name for name in header if name not in known)
        return [place[name] for name in wanted.names], label

    # -- JSON lines ---------------------------------------------------------------------------------------------

    def _of_json(self, lines: Iterable[str]) -> Iterator[Instance | BadRow]:
        for line, text in enumerate(lines, start=1):
            if text.strip():
                yield self._made(line, partial(self._object, text))

    def _object(self, text: str) -> tuple[Array, Any]:
        try:
            found = json.loads(text.lstrip("\ufeff"))
        except ValueError as error:
            raise InputError(f"not JSON ({error})") from error
        except RecursionError:
            raise InputError("JSON that is nested too deeply to be read") from None
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
            known = set(names)
            self.ignored = tuple(name for name in found if name not in known)
        return np.array([number(found[name], name) for name in names]), label


def _these(noun: str, names: Sequence[Any]) -> str:
    return f"{noun} {names[0]!r} is" if len(names) == 1 else f"{noun}s {listed([repr(n) for n in names])} are"
