"""Rows of JSON lines: objects of column names and values or, for a model without names, lists.

A part in which every line is one flat object, with numbers for all features, is read by pyarrow if that is installed;
anything else line by line, with the same result. An object that has an id and a label and no feature at all is a label
that comes later than its row.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.errors import InputError
from hedgerow.data.arrow_columns import mapped, matrix_of
from hedgerow.data.byte_feeds import TextLines
from hedgerow.data.columns import id_text, listed, numbers, utf8
from hedgerow.data.matching import AsTheyAre, Encoder, Wanted, these
from hedgerow.data.stretches import BAD, LATE, MOST_TEXT, Bad, Gathered, Late, Stretch, TextRows, all_rows

SOME = 16  # lines for which it is worth to ask pyarrow
PARSED = 1 << 20  # bytes that pyarrow gives to a thread
_MINUS_ZERO = re.compile(rb"-0[^.eE0-9]")  # a whole number, and so no negative zero


class JsonRows(TextRows):
    """One file or stream of JSON lines; `exact`: a column that is not wanted is refused, not left out."""

    def __init__(self, text: TextLines, exact: bool = False) -> None:
        self._text, self._exact = text, exact
        self.ignored: tuple[str, ...] = ()

    def first(self) -> Any:
        """The value of the first line that is not blank; None if there is none or it is not JSON."""
        text = self._text
        text.first_letter()
        for i in range(len(text.ends)):
            if line := text.texts(i, i + 1)[0].strip("\ufeff \t\r\n"):
                try:
                    return json.loads(line)
                except (ValueError, RecursionError):
                    return None
        return None

    def match(self, wanted: Wanted) -> tuple[str, ...]:
        """Keep what is wanted. Which columns are not shows only in the rows."""
        self._wanted, self._label_of = wanted, wanted.label_of()
        names = wanted.names if wanted.table is None or not wanted.table.names else wanted.table.names
        self._known = None if names is None else set(names)
        self._left_out = set() if wanted.table is None else set(wanted.table.left_out)
        self._plain = plain_reader(wanted) if wanted.table is None else None
        return ()

    # -- the fast way -------------------------------------------------------------------------------------------

    def _fast(self, first: int, last: int) -> Stretch | None:
        text = self._text
        if self._plain is None or text.odd or last - first < SOME:
            return None
        start = 0 if first == 0 else int(text.ends[first - 1])
        ends = text.ends[first:last]
        piece = text.data[start : int(ends[-1])]
        starts = np.append(0, ends[:-1] - start)
        # One flat object a line: no other can be mistaken for it, and none can be nested too deeply.
        flat = piece.count(b"{") == len(ends) and b"[" not in piece
        if not flat or (np.frombuffer(piece, np.uint8)[starts] != ord("{")).any() or _MINUS_ZERO.search(piece):
            return None
        found = self._plain.read(piece, len(ends), bool(self.ignored), self._label_of)
        if found is None:
            return None
        lines = np.arange(text.line + first, text.line + last)
        return all_rows(lines, ends + text.at, *found)

    # -- line by line -------------------------------------------------------------------------------------------

    def _careful(self, first: int, last: int) -> tuple[Stretch, int]:
        text, wanted = self._text, self._wanted
        raw = isinstance(wanted.table, AsTheyAre)
        gathered = Gathered(1 if raw else wanted.width, wanted.label is not None, wanted.id is not None, raw)
        for i, line in enumerate(text.texts(first, last), start=first):
            if not line.strip():
                continue
            number = text.line + i
            try:
                kind = self._taken(line, number, gathered)
            except InputError as error:
                gathered.bad.append(Bad(number, str(error), text.shown(i, i + 1, MOST_TEXT), error))
                kind = BAD
            gathered.records.append((kind, number, text.at + int(text.ends[i]), number + 1))
        return gathered.stretch(), last - first

    def _taken(self, line: str, number: int, gathered: Gathered) -> int:
        found, wanted = self._object(line), self._wanted
        has_label = wanted.label is not None and wanted.label in found
        label = None if wanted.label is None else self._label_of(found.pop(wanted.label, None))
        has_id = wanted.id is not None and wanted.id in found
        id = None if wanted.id is None else id_text(found.pop(wanted.id, None), wanted.id)
        if has_label and has_id and wanted.width and not self._features_in(found):
            if label is None:
                raise InputError("an id without features and without a label")
            gathered.late.append(Late(number, str(id), label))
            return LATE
        return gathered.row(self._values(found), label, id)

    def _object(self, line: str) -> dict[Any, Any]:
        try:
            found = json.loads(line.lstrip("\ufeff"))
        except ValueError as error:
            raise InputError(f"not JSON ({error})") from error
        except RecursionError:
            raise InputError("JSON that is nested too deeply to be read") from None
        if isinstance(found, list) and self._wanted.names is None:
            found = dict(enumerate(found))
        if not isinstance(found, dict):
            raise InputError("not a JSON object of column names and values")
        return found

    def _features_in(self, found: dict[Any, Any]) -> bool:
        return bool(found) if self._known is None else not self._known.isdisjoint(found)

    def _values(self, found: dict[Any, Any]) -> Sequence[Any]:
        wanted = self._wanted
        if wanted.table is not None:
            return self._of_table(wanted.table, found)
        names: Sequence[Any] = wanted.names if wanted.names is not None else list(found)
        if len(names) != wanted.width:
            raise InputError(f"{len(names)} features, but the model was fitted on {wanted.width} (without names)")
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(f"{these('column', missing)} missing")
        if not self.ignored and self._known is not None and len(found) > len(names):
            others = tuple(name for name in found if name not in self._known)
            if self._exact:
                raise InputError(f"{these('column', others)} not in the first line; every line must have the same")
            self.ignored = others
        return numbers([found[name] for name in names], names)

    def _of_table(self, table: Encoder, found: dict[Any, Any]) -> Sequence[Any]:
        """The numbers of a row; it may lack columns, but not all of them."""
        if self._known is not None:
            if self._known.isdisjoint(found):
                raise InputError(f"none of the model's columns ({listed(table.names)}) is there")
            if not self.ignored:
                self.ignored = tuple(n for n in found if n not in self._known and n not in self._left_out)
        for name, value in found.items():
            if isinstance(value, str):
                utf8(value, f"column {name!r}")
        return table.of_mapping(found)


class _Plain:
    """Reads flat objects by pyarrow; None for what is not plain or not right."""

    def __init__(self, pa: Any, reader: Any, wanted: Wanted, names: Sequence[str]) -> None:
        self._pa, self._json, self._wanted, self._names = pa, reader, wanted, names
        self._read = reader.ReadOptions(block_size=PARSED)
        self._types = [pa.string(), pa.int64()]  # of labels, the one that was right last time first

    def read(self, piece: bytes, rows: int, ignore: bool, label_of: Any) -> tuple[Any, Any, Any] | None:
        """Features, labels and ids of so many rows; without `ignore` there must be no other column."""
        for kind in tuple(self._types) if self._wanted.label is not None else (None,):
            table = self._table(piece, kind, ignore)
            if table is None:
                continue
            if kind is not None and self._types[0] is not kind:
                self._types.reverse()
            return self._values(table, rows, label_of)
        return None

    def _table(self, piece: bytes, label: Any, ignore: bool) -> Any:
        pa, wanted = self._pa, self._wanted
        fields = [(name, pa.float64()) for name in self._names]
        fields += [(name, kind) for name, kind in ((wanted.label, label), (wanted.id, pa.string())) if name is not None]
        options = self._json.ParseOptions(
            explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore" if ignore else "error"
        )
        try:
            return self._json.read_json(pa.BufferReader(piece), self._read, options)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None

    def _values(self, table: Any, rows: int, label_of: Any) -> tuple[Any, Any, Any] | None:
        wanted, width = self._wanted, len(self._names)
        if table.num_rows != rows or any(table.column(j).null_count for j in range(width)):
            return None
        X = matrix_of(table, width)
        if not np.isfinite(X).all():
            return None
        try:
            labels = None if wanted.label is None else mapped(table.column(width), label_of)
            texts = None if wanted.id is None else table.column(table.num_columns - 1).to_pylist()
            ids = None if texts is None or wanted.id is None else [id_text(text, wanted.id) for text in texts]
        except (InputError, UnicodeDecodeError):
            return None
        return X, labels, ids


def plain_reader(wanted: Wanted) -> _Plain | None:
    """The fast reader, where there is one."""
    if not wanted.names:
        return None
    try:
        pa, reader = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.json")
    except ImportError:
        return None
    return _Plain(pa, reader, wanted, wanted.names)
