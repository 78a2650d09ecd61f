"""Bytes of a text input: from a file, plain or compressed, in large parts; from a pipe as they come.

`TextLines` keeps the complete lines among them, with their place, for the readers of text formats.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.data.inputs import compression_of

AT_ONCE = 4 << 20  # bytes of a file that are parsed together
FROM_PIPE = 1 << 16
BOM = b"\xef\xbb\xbf"
_BREAK = re.compile(rb"\r\n|\n|\r")


class FileFeed:
    """The bytes of a file, unpacked. `done` counts those of the file itself."""

    live = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._suffix = compression_of(path)
        try:
            self._raw: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}") from error
        self._unpacked = self._opened()

    def _opened(self) -> Any:
        if self._suffix == ".gz":
            return gzip.GzipFile(fileobj=self._raw)
        if self._suffix == ".zst":
            pa = require("pyarrow", extra="data")
            return pa.CompressedInputStream(pa.PythonFile(self._raw, mode="r"), "zstd")
        return self._raw

    @property
    def done(self) -> int:
        """Bytes of the file that were read."""
        return self._raw.tell()

    def read(self, most: int = AT_ONCE) -> bytes:
        """The next bytes; none at the end."""
        try:
            return bytes(self._unpacked.read(most))
        except (OSError, EOFError, zlib.error) as error:
            if self._suffix is None:
                raise InputError(f"cannot be read: {error}") from error
            raise InputError(
                f"cut off or damaged, it cannot be unpacked ({error}); copy it or make it again"
            ) from error

    def skip(self, count: int) -> None:
        """Go on after so many bytes from the beginning, before anything was read."""
        if self._suffix is None:
            self._raw.seek(count)
            return
        while count > 0 and (part := self.read(min(count, AT_ONCE))):
            count -= len(part)

    def close(self) -> None:
        """Close the file."""
        self._unpacked.close()
        self._raw.close()


class PipeFeed:
    """The bytes of a stream that is read as it comes: what is there, as soon as something is."""

    live = True

    def __init__(self, stream: Any, own: bool = False) -> None:
        self._own = own
        self._stream = getattr(stream, "buffer", stream)  # below the text of sys.stdin
        self.done = 0

    def read(self) -> bytes:
        """What is there; waits if that is nothing. No bytes at the end."""
        part = bytes(self._stream.read1(FROM_PIPE))
        self.done += len(part)
        return part

    def skip(self, count: int) -> None:
        """Read so many bytes and leave them."""
        while count > 0 and (part := self._stream.read1(min(count, FROM_PIPE))):
            count -= len(part)
            self.done += len(part)

    def close(self) -> None:
        """Close the stream, if it was opened for this feed."""
        if self._own:
            self._stream.close()


class TextLines:
    """Complete lines of a feed: `data` begins at byte `at` of the text with line number `line`.

    `ends` are the places in `data` after each complete line; what follows them has still to be completed. `final`:
    nothing will follow. `odd`: some lines end with a carriage return and nothing else.
    """

    def __init__(self, feed: FileFeed | PipeFeed, at: int = 0, line: int = 1) -> None:
        self.feed, self.at, self.line = feed, at, line
        self.data, self.ends, self.odd = b"", np.empty(0, np.int64), False
        self.final = False
        if at == 0:
            self._begin()
        else:
            feed.skip(at - 1)  # where a last line had no line break, one may have been added since
            self.data = self._after(feed.read())

    def _begin(self) -> None:
        head = self.feed.read()
        while len(head) < len(BOM) and BOM.startswith(head) and (more := self.feed.read()):
            head += more
        if head.startswith(BOM):
            self.at, head = len(BOM), head[len(BOM) :]
        self.data = head

    def _after(self, text: bytes) -> bytes:
        before, text = text[:1], text[1:]
        if before not in (b"\n", b"\r") or (before == b"\r" and text[:1] == b"\n"):
            match = _BREAK.match(text)
            if match:
                self.at += match.end()
                return text[match.end() :]
        return text

    def moved(self, at: int, line: int) -> TextLines:
        """The lines from a place on: found by its byte in a plain file, by reading up to it in any other input."""
        if isinstance(self.feed, FileFeed):
            self.feed.close()
            return TextLines(FileFeed(self.feed.path), at, line)
        while self.at < at and (len(self.ends) or self.fill()):
            self.drop(int(np.searchsorted(self.ends, at - self.at, side="right")) or len(self.ends[:1]))
        self.line = line
        return self

    def first_letter(self) -> str:
        """The first character that is no white space; empty at the end of the input."""
        while not (self.data.strip() and len(self.ends)) and self.fill():
            pass
        return self.data.lstrip()[:1].decode("utf-8", "replace")

    def fill(self) -> bool:
        """At least one line more, or the knowledge that it is the end; False if that was known.

        On a pipe it waits until a line is complete, and no longer.
        """
        if self.final:
            return False
        parts = [self.data]
        # data without lines is of the beginning, and may have some
        fresh = b"" if len(self.ends) else self.data
        while not _complete(fresh):
            fresh = self.feed.read()
            if not fresh:
                self.final = True
                break
            parts.append(fresh)
        self.data = b"".join(parts)
        self.ends, self.odd = line_ends(self.data, self.final)
        return True

    def drop(self, lines: int) -> None:
        """Forget the first lines."""
        if lines:
            cut = int(self.ends[lines - 1])
            self.data, self.ends = self.data[cut:], self.ends[lines:] - cut
            self.at += cut
            self.line += lines

    def texts(self, first: int, last: int) -> list[str]:
        """Lines as text; bytes that are not UTF-8 are surrogates, so that the line they stand on can be named."""
        start = 0 if first == 0 else int(self.ends[first - 1])
        text = self.data[start : int(self.ends[last - 1])].decode("utf-8", "surrogateescape")
        return list(io.StringIO(text, newline=""))

    def shown(self, first: int, last: int, most: int) -> str:
        """Lines as they are, for a person, without the last line break."""
        start = 0 if first == 0 else int(self.ends[first - 1])
        text = self.data[start : min(int(self.ends[last - 1]), start + 4 * most)]
        return text.decode("utf-8", "replace").rstrip("\r\n")[:most]


def _complete(text: bytes) -> int:
    """How many bytes are complete lines. A last carriage return may yet be followed by a line feed."""
    return text.rfind(b"\n") + 1 or text.rfind(b"\r", 0, max(len(text) - 1, 0)) + 1


def line_ends(data: bytes, final: bool = True) -> tuple[Array, bool]:
    r"""The places after each complete line, and whether a carriage return alone ends one. Final: all are.

    >>> line_ends(b"a\nbc\r\nd")
    (array([2, 6, 7]), False)
    """
    odd = b"\r" in data and data.count(b"\r") != data.count(b"\r\n")
    if odd:
        complete = len(data) if final else _complete(data)
        ends = np.fromiter((match.end() for match in _BREAK.finditer(data, 0, complete)), np.int64)
    else:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    if final and len(data) and (not len(ends) or ends[-1] != len(data)):
        ends = np.append(ends, len(data))
    return ends, odd


def digest_of(path: Path, count: int) -> str:
    """A digest of the first bytes of a file, with their number: a file may have grown since."""
    import hashlib

    with path.open("rb") as file:
        head = file.read(count)
    return f"sha256:{len(head)}:{hashlib.sha256(head).hexdigest()[:32]}"


def size_of(path: Path) -> int:
    """Its bytes on disk."""
    return os.stat(path).st_size
