"""Plain CSV by pyarrow: text that means the same to every reader of CSV.

Quotes are plain if each pair encloses a whole field that has no quote and no line break within.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.data.arrow_columns import mapped, matrix_of
from hedgerow.data.matching import Encoder, Places

PARSED = 1 << 19  # bytes that pyarrow gives to a thread
QUOTE = ord('"')


class PlainCsv:
    """Reads plain text; None for what is not plain or not right."""

    def __init__(self, pa: Any, csv: Any, places: Places, width: int, delimiter: str, table: Encoder | None) -> None:
        self._pa, self._csv, self._places, self._table = pa, csv, places, table
        names = [str(i) for i in range(width)]
        self._used = [
            (name, str(i))
            for name, i in zip(places.names, places.features, strict=True)
            if table is None or name in table.names
        ]
        types = {i: pa.float64() if table is None else pa.string() for _, i in self._used}
        texts = [str(i) for i in (places.label, places.id) if i is not None]
        types |= dict.fromkeys(texts, pa.string())
        self._read = csv.ReadOptions(column_names=names, block_size=PARSED)
        self._delimiter = ord(delimiter)
        self._parse, self._parse_quoted = (
            csv.ParseOptions(delimiter=delimiter, quote_char=mark, double_quote=False, newlines_in_values=False)
            for mark in (False, '"')
        )
        self._convert = csv.ConvertOptions(
            column_types=types, null_values=[], strings_can_be_null=False, include_columns=list(types)
        )

    def read(self, piece: memoryview, ends: Array, label_of: Any) -> tuple[Array, Any, Any] | None:
        """Features, labels and ids of a row a line; `ends` are the places after each line."""
        letters = np.frombuffer(piece, np.uint8)
        quotes = np.flatnonzero(letters == QUOTE)
        if len(quotes) and not self._whole_fields(letters, quotes, ends):
            return None
        options = self._parse_quoted if len(quotes) else self._parse
        try:
            table = self._csv.read_csv(self._pa.BufferReader(piece), self._read, options, self._convert)
        except self._pa.ArrowInvalid:
            return None
        if table.num_rows != len(ends):
            return None
        X = self._features(table)
        if X is None:
            return None
        try:
            return X, self._labels(table, label_of), self._ids(table)
        except InputError:
            return None

    def _features(self, table: Any) -> Array | None:
        """Finite numbers, or what the encoder makes of the cells; None if that is not all."""
        if self._table is not None:
            return self._table.of_columns({name: table.column(i).to_pylist() for name, i in self._used}, table.num_rows)
        X = matrix_of(table, len(self._used))
        return X if np.isfinite(X).all() else None

    def _whole_fields(self, letters: Array, quotes: Array, ends: Array) -> bool:
        """Whether every pair of quotes encloses one whole field without quotes and line breaks."""
        if len(quotes) % 2:
            return False
        opening, closing = quotes[::2], quotes[1::2]
        borders = np.zeros(256, bool)
        borders[[self._delimiter, *b"\r\n"]] = True
        before = borders[letters[opening - 1]] | (opening == 0)
        after = borders[letters[np.minimum(closing + 1, len(letters) - 1)]] | (closing == len(letters) - 1)
        return bool((before & after).all()) and np.array_equal(
            np.searchsorted(ends, opening, side="right"), np.searchsorted(ends, closing, side="right")
        )

    def _labels(self, table: Any, label_of: Any) -> list[Any] | None:
        place = self._places.label
        return None if place is None else mapped(table.column(str(place)), label_of)

    def _ids(self, table: Any) -> list[str] | None:
        place = self._places.id
        if place is None:
            return None
        ids = [text.strip() for text in table.column(str(place)).to_pylist()]
        if "" in ids:
            raise InputError("an id is missing")
        return ids


def plain_reader(places: Places, width: int, delimiter: str, table: Encoder | None = None) -> PlainCsv | None:
    """The fast reader, where there is one."""
    if not places.features and places.label is None and places.id is None:
        return None
    if width == 1 and table is not None:  # a blank line, or one of nothing but quotes, would be a row with a gap
        return None
    try:
        pa, csv = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    except ImportError:
        return None
    return PlainCsv(pa, csv, places, width, delimiter, table)
