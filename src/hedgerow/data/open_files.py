"""The files of an input, opened one after the other, each with the reader of its format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError, unknown
from hedgerow.data.arrow_rows import ArrowRows
from hedgerow.data.byte_feeds import FileFeed, PipeFeed, TextLines, digest_of
from hedgerow.data.csv_rows import CsvRows
from hedgerow.data.inputs import FORMATS, TEXT, files_of, is_pipe
from hedgerow.data.json_rows import JsonRows

HEAD = 4096  # bytes by which a stream is known again

Table = CsvRows | JsonRows | ArrowRows


class Files:
    """Files of one format, or one pipe: `live`, without a size, and known as nothing but a pipe."""

    def __init__(
        self,
        paths: tuple[Path, ...],
        format: str | None,
        pipe: Any = None,
        called: str = "",
        own: bool = False,
    ) -> None:
        self.paths, self.format, self._pipe, self._called, self._own = paths, format, pipe, called, own
        self.live = pipe is not None
        self._sizes = [path.stat().st_size for path in paths]
        self.total = None if self.live else sum(self._sizes)
        self.identity = "pipe" if self.live else digest_of(paths[0], HEAD)

    @classmethod
    def of(cls, input: str, format: str | None, descriptor: Any = None) -> Files:
        """The files that an input means; with a descriptor, that."""
        if format is not None and format not in FORMATS:
            raise unknown("format", format, FORMATS)
        if descriptor is not None or input == "-":
            called = "standard input" if input == "-" else input
            return cls((), format, sys.stdin if descriptor is None else descriptor, called)
        found = files_of(input, format)
        if is_pipe(found.files[0]):
            return cls((), found.format, found.files[0].open("rb"), input, own=True)
        return cls(found.files, found.format)

    def __len__(self) -> int:
        return 1 if self.live else len(self.paths)

    def name(self, number: int) -> str:
        """A file as it is called."""
        return self._called if self.live else str(self.paths[number])

    @property
    def text(self) -> bool:
        """Whether they have lines."""
        return self.format in TEXT

    def prefix(self, number: int) -> str:
        """Its name before an error."""
        name = self.name(number)
        return f"{name}: " if name else ""

    def number_of(self, name: str) -> int:
        """Which file it is."""
        names = [self.name(number) for number in range(len(self))]
        if name not in names:
            raise InputError(f"the place to go on is in {name}, which is not part of the input any more")
        return names.index(name)

    def before(self, number: int) -> int:
        """Bytes of the files before this one."""
        return sum(self._sizes[:number])

    def continues(self, identity: str) -> bool:
        """Whether the first file begins as the one of that identity did."""
        if self.live or not identity.startswith("sha256:"):
            return identity == self.identity
        return digest_of(self.paths[0], int(identity.split(":")[1])) == identity

    def open(self, number: int, *, fitting: bool = False) -> Table:
        """The reader of a file, at its first row.

        For `fitting`, float32 is kept and a column that only some rows have is refused.
        """
        try:
            return self._open(number, fitting)
        except InputError as error:
            raise InputError(f"{self.prefix(number)}{error}") from error

    def _open(self, number: int, fitting: bool) -> Table:
        path = None if self.live else self.paths[number]
        if self.format in ("parquet", "arrow"):
            return ArrowRows(path, self.format, self._pipe, keep_float32=fitting)
        feed = PipeFeed(self._pipe, own=self._own) if path is None else FileFeed(path)
        try:
            text = TextLines(feed)
            if self.format is None:
                self.format = "jsonl" if text.first_letter() in ("{", "[") else "csv"
            return JsonRows(text, exact=fitting) if self.format == "jsonl" else CsvRows(text, self.format)
        except InputError:
            feed.close()
            raise
