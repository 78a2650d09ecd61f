"""What an input is: its files and their format, their bytes, unpacked, and their lines.

An input is one file, all files of a folder, those that match a pattern, or a pipe.

| format    | suffixes                                | also compressed |
|-----------|-----------------------------------------|-----------------|
| `csv`     | `.csv`                                  | `.gz`           |
| `tsv`     | `.tsv`                                  | `.gz`           |
| `jsonl`   | `.jsonl`, `.ndjson`, `.json`            | `.gz`           |
| `parquet` | `.parquet`, `.pq`                       | within itself   |
| `arrow`   | `.arrow`, `.arrows`, `.feather`, `.ipc` | within itself   |
"""

from __future__ import annotations

import codecs
import glob
import gzip
import hashlib
import io
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.rows.wanted import listed

SUFFIXES = {
    **{".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"},
    **{".parquet": "parquet", ".pq": "parquet"},
    **{".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow", ".ipc": "arrow"},
}
COMPRESSED = (".gz",)
TEXT = ("csv", "tsv", "jsonl")
FORMATS = (*TEXT, "parquet", "arrow")
HEAD = 4096  # bytes by which a stream is recognised
AT_ONCE = 1 << 20  # bytes of a file that are parsed together, while those before are worked on
FROM_PIPE = 1 << 16
BOM = b"\xef\xbb\xbf"
_SINGLE = re.compile("[\udc80-\udcff]")  # bytes that are no UTF-8, as Python escapes them
_SEVERAL = re.compile("[^\0-\x7f\udc80-\udcff]")
NOT_CP1252 = b"\x81\x8d\x8f\x90\x9d"
_BREAK = re.compile(rb"\r\n|\n|\r")


class Dialect(NamedTuple):
    """How the text files of an input are written, where they are not to tell, and who is told what they told."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    say: Callable[[str], None] = lambda _: None
    labels: Mapping[str, str] = MappingProxyType({})  # what stands there, and what it is to be

    def relabelled(self, labels: list[Any]) -> list[Any]:
        """Labels as they are to be."""
        if not self.labels:
            return labels
        words = [str(label).strip() for label in labels]
        RELABELLED.get().update(self.labels.keys() & set(words))
        return [self.labels.get(word, label) for word, label in zip(words, labels, strict=True)]


DIALECT = ContextVar[Dialect]("DIALECT")
RELABELLED = ContextVar[set[str]]("RELABELLED")


@contextmanager
def written_with(dialect: Dialect) -> Iterator[None]:
    """Inputs that are named within are read so, as `--delimiter`, `--decimal` and `--encoding` say.

    >>> with written_with(Dialect(delimiter="ab")):
    ...     pass
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: --delimiter 'ab': give one character, such as ; or \\t
    """
    delimiter, decimal, encoding, say, labels = dialect
    delimiter = "\t" if delimiter == "\\t" else delimiter
    if delimiter is not None and (
        len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii()
    ):
        raise InputError(f"--delimiter {delimiter!r}: give one character, such as ; or \\t")
    if decimal not in (None, ".", ",") or (decimal is not None and decimal == delimiter):
        raise InputError(f"--decimal {decimal!r}: give . or , and not the delimiter")
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError:
        raise InputError(
            f"--encoding {encoding!r}: no such encoding; give cp1252, for instance"
        ) from None
    token = DIALECT.set(
        Dialect(delimiter, decimal, encoding, cache(say), labels)
    )  # once a line, however often a file is opened
    met = RELABELLED.set(set())
    try:
        yield
        if unmet := labels.keys() - RELABELLED.get():
            raise InputError(f"--relabel {sorted(unmet)[0]}=..: no file has this label")
    finally:
        RELABELLED.reset(met)
        DIALECT.reset(token)


class Files:
    """The files of an input in the order in which they are read, all of one format; or one pipe, which is `live`.

    The format is None until the first line has told it. `whole_lines`: a last line without a line break is left.
    `detects`: text that is not UTF-8 is taken for Windows' cp1252, if it can be.
    """

    whole_lines = False
    detects = False

    def __init__(
        self, paths: tuple[Path, ...], format: str | None, stream: Any = None, name: str = ""
    ) -> None:
        self.paths = paths
        self.format = format
        self.stream = stream
        self.live = stream is not None or is_pipe(paths[0])
        self.names = [name] if stream is not None else list(map(str, paths))
        self._sizes = [] if self.live else [path.stat().st_size for path in paths]
        self.total = None if self.live else sum(self._sizes)
        self.dialect = DIALECT.get(Dialect())

    @classmethod
    def of(cls, input: str, format: str | None = None, stream: Any = None) -> Files:
        """The files that an input means; "-" is standard input, and a stream is read instead of the input.

        >>> Files.of("no/such/folder/*.csv")
        Traceback (most recent call last):
        hedgerow.core.errors.InputError: no/such/folder/*.csv: no file matches this pattern
        """
        if format is not None and format not in FORMATS:
            raise unknown("format", format, FORMATS)
        if stream is not None or input == "-":
            name = "standard input" if input == "-" else input
            return cls((), format, sys.stdin if stream is None else stream, name)
        path = Path(input).expanduser()
        if path.is_dir():
            files = _of_folder(input, path)
        elif is_pattern(input):
            matches = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
            files = [name for name in matches if name.is_file()]
            if not files:
                raise InputError(
                    f"{input}: no file matches this pattern" + (" (folders do)" if matches else "")
                )
        elif not path.exists():
            raise no_such_file(path)
        else:
            return cls((path,), format or format_of(path))
        return cls(tuple(files), format or _one_format(input, files))

    @property
    def identity(self) -> str:
        """What tells one stream from another: a digest of how the first file begins."""
        return "pipe" if self.live else _digest(self.paths[0], HEAD)

    def continues(self, identity: str) -> bool:
        """Whether this is the stream of that identity, perhaps longer now."""
        if self.live or not identity.startswith("sha256:"):
            return identity == self.identity
        return _digest(self.paths[0], int(identity.split(":")[1])) == identity

    def tell(self, number: int, text: str) -> None:
        """Say how a file is written, once."""
        self.dialect.say(f"{self.names[number]}: {text}")

    def encoding(self, number: int) -> str | None:
        """How the text of a file is written; None for UTF-8."""
        encoding = self.dialect.encoding
        if encoding is None and self.detects and _is_cp1252(self.paths[number]):
            encoding = "cp1252"
            self.tell(number, f"is not UTF-8 and read as {encoding} (--encoding says otherwise)")
        return encoding

    @property
    def unit(self) -> str:
        """What a row is counted in."""
        return "line" if self.format in TEXT else "row"

    def number_of(self, name: str) -> int:
        """Which file it is."""
        if name not in self.names:
            raise InputError(
                f"the place to go on is in {name}, which is not part of the input any more"
            )
        return self.names.index(name)

    def before(self, number: int) -> int:
        """Bytes of the files before this one."""
        return sum(self._sizes[:number])

    @contextmanager
    def naming(self, number: int, after: str = "") -> Iterator[None]:
        """Errors within have the name of this file before them."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.names[number]}: {error}{after}") from error


def is_pattern(input: str) -> bool:
    """Whether the text has a mark that stands for other names, and is no name itself.

    >>> is_pattern("day-*.csv"), is_pattern("day.csv")
    (True, False)
    """
    return glob.has_magic(input) and not Path(input).expanduser().exists()


def is_pipe(path: Path) -> bool:
    """Whether what is there can be read only once, and only as it comes."""
    return path.exists() and (
        stat.S_ISFIFO(mode := path.stat().st_mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)
    )


def format_of(path: Path) -> str | None:
    """The format by the suffix, None for one that is not known.

    >>> format_of(Path("a.CSV.gz")), format_of(Path("a.feather")), format_of(Path("a.txt"))
    ('csv', 'arrow', None)
    """
    format = SUFFIXES.get(_last_suffix(path))
    if format is not None and format not in TEXT and compression_of(path):
        raise InputError(
            f"{path}: {format} files are compressed within themselves; unpack it and give that file"
        )
    return format


def compression_of(path: Path) -> str | None:
    """The suffix that says how a file is compressed, if it is.

    >>> compression_of(Path("a.csv.gz")), compression_of(Path("a.csv"))
    ('.gz', None)
    """
    return suffix if (suffix := path.suffix.lower()) in COMPRESSED else None


def stem(input: str) -> str:
    """The name of an input without folder and suffixes.

    >>> stem("sites/a.csv.gz"), stem("sites/"), stem("sites/a/*.parquet"), stem("day-*.csv"), stem("a.b.csv")
    ('a', 'sites', 'a', 'day', 'a.b')
    """
    path = Path(input)
    name = path.stem if compression_of(path) is None else Path(path.stem).stem
    if not is_pattern(input):
        return name if not path.is_dir() else path.name
    plain = re.split(r"[*?[]", name)[0].rstrip("-_. ")
    return plain or next(
        (part for part in reversed(path.parts[:-1]) if not glob.has_magic(part)), path.name
    )


def no_such_file(path: Path, also: Iterable[str] = ()) -> InputError:
    """The error for a file that is not there, with those beside it that could be meant."""
    if not path.parent.is_dir():
        return InputError(f"{path}: no such file (there is no folder {str(path.parent)!r} either)")
    known = {*SUFFIXES, *also}
    others = sorted(other.name for other in path.parent.iterdir() if _last_suffix(other) in known)
    beside = f"; {str(path.parent)!r} holds {', '.join(others[:10])}" if others else ""
    return InputError(f"{path}: no such file{beside}")


def _of_folder(input: str, path: Path) -> list[Path]:
    """Hidden files, markers such as _SUCCESS, folders and files of other suffixes are no part of the data."""
    files = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
    known = [file for file in files if format_of(file) is not None]
    if not known:
        there = f"; it holds {listed([file.name for file in files])}" if files else ", it is empty"
        raise InputError(
            f"{input}: no file of a known format in this folder ({', '.join(SUFFIXES)}){there}"
        )
    return known


def _one_format(input: str, files: list[Path]) -> str:
    formats = [format_of(file) for file in files]
    for file, format in zip(files, formats, strict=True):
        if format is None:
            raise InputError(
                f"{input}: {file.name} has no known suffix ({', '.join(SUFFIXES)}); narrow the pattern"
            )
        if format != formats[0]:
            suffixes = _last_suffix(files[0]) + (compression_of(files[0]) or "")
            raise InputError(
                f"{input}: files of different formats, {files[0].name} and {file.name}; "
                f"choose one with a pattern, for instance '*{suffixes}'"
            )
    return str(formats[0])


def _last_suffix(path: Path) -> str:
    """The suffix that says what is in the file."""
    return (path.with_suffix("") if compression_of(path) else path).suffix.lower()


def _digest(path: Path, count: int) -> str:
    """A digest of the first bytes of a file, with their number: a file may have grown since."""
    with path.open("rb") as file:
        head = file.read(count)
    return f"sha256:{len(head)}:{hashlib.sha256(head).hexdigest()[:32]}"


def _is_cp1252(path: Path) -> bool:
    """Whether a file is no UTF-8, and can be what Windows wrote before: most letters beyond ASCII are single bytes."""
    decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
    single = 0
    several = 0
    # a file that is damaged is refused where it is read
    with (
        suppress(OSError, EOFError, zlib.error),
        (gzip.open if compression_of(path) else open)(path, "rb") as file,
    ):
        while part := file.read(AT_ONCE):
            if not part.isascii():
                text = decode(part)
                single += len(_SINGLE.findall(text))
                several += len(_SEVERAL.findall(text))
                if any(byte in part for byte in NOT_CP1252):
                    return False
    return single > several


def shorter(place: str) -> InputError:
    """The error for an input that ends before the place to go on."""
    return InputError(
        f"shorter than before: it ends before {place}, the place to go on; was it cut or replaced?"
    )


class TextLines:
    """Complete lines of a text: of a file, unpacked, in large parts; of a pipe as they come.

    `data` begins at byte `at` of the text with line number `line`. `ends` are the places in `data` after each complete
    line; what follows them has still to be completed. `final`: nothing will follow. `odd`: some lines end with a
    carriage return and nothing else.
    """

    data: bytes

    def __init__(
        self,
        path: Path | None,
        stream: Any = None,
        whole: bool = False,
        encoding: str | None = None,
    ) -> None:
        self._whole = whole
        self._encoding = encoding
        self._decode: Callable[[bytes], str] | None = None
        self._path = path
        self.live = path is None or is_pipe(path)
        self._suffix = None if path is None or self.live else compression_of(path)
        self._raw: Any = getattr(stream, "buffer", stream)  # below the text of sys.stdin
        self._unpacked = self._raw
        self._taken = 0
        self._open()
        self._begin(0, 1)
        while len(self.data) < len(BOM) and BOM.startswith(self.data) and (more := self._read()):
            self.data += more
        if self.data.startswith(BOM):
            self.at = len(BOM)
            self.data = self.data[len(BOM) :]

    def _open(self) -> None:
        if self._path is None:
            return
        self.close()
        try:
            self._raw = self._unpacked = self._path.open("rb")
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}") from error
        if self._suffix == ".gz":
            self._unpacked = gzip.GzipFile(fileobj=self._raw)
        self._decode = None

    def _begin(self, at: int, line: int) -> None:
        self.at, self.line, self.ends, self.odd, self.final = (
            at,
            line,
            np.empty(0, np.int64),
            False,
            False,
        )
        self.data = self._read()

    def _read(self, most: int = AT_ONCE) -> bytes:
        """The next bytes, as UTF-8; none at the end. From a pipe what is there, as soon as something is."""
        if self._encoding is None:
            return self._bytes(most)
        self._decode = self._decode or codecs.getincrementaldecoder(self._encoding)().decode
        text = ""
        while not text and (part := self._bytes(most)):
            try:
                text = self._decode(part)
            except UnicodeError as error:
                raise InputError(
                    f"cannot be read as {self._encoding} ({error}); give another --encoding"
                ) from error
        return text.encode()

    def _bytes(self, most: int) -> bytes:
        if self.live:
            part = bytes(self._raw.read1(FROM_PIPE))
            self._taken += len(part)
            return part
        try:
            return bytes(self._unpacked.read(most))
        except (OSError, EOFError, zlib.error) as error:
            self.close()
            if self._suffix is None:
                raise InputError(f"cannot be read: {error}") from error
            raise InputError(
                f"cut off or damaged: it cannot be unpacked ({error}); copy or make it again"
            ) from error

    def go_to(self, at: int, line: int) -> None:
        """Go on at a byte of the text, which is the beginning of this line."""
        if self.live:
            raise InputError("a pipe cannot go on where it was; give a file")
        self._open()
        skip = at - 1  # where a last line had no line break, one may have been added since
        over = b""
        if self._suffix is None and self._encoding is None:
            self._raw.seek(skip)
        else:
            while len(over) < skip and (part := self._read(min(skip, AT_ONCE))):
                skip, over = skip - len(over), part
        self._begin(at, line)
        self.data = over[skip:] + self.data if over else self.data
        if not self.data:
            raise shorter(f"byte {at}")
        before = self.data[:1]
        self.data = self.data[1:]
        if before not in (b"\n", b"\r") or (before == b"\r" and self.data[:1] == b"\n"):
            added = _BREAK.match(self.data)
            if added:
                self.at, self.data = at + added.end(), self.data[added.end() :]

    @property
    def done(self) -> int:
        """Bytes of the input itself that were read."""
        return self._taken if self.live else int(self._raw.tell())

    def close(self) -> None:
        """Close what was opened here: first what unpacks, which would else close the file when it is dropped."""
        if self._path is not None and self._raw is not None:
            self._unpacked.close()
            self._raw.close()

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
            fresh = self._read()
            if not fresh:
                self.final = True
                break
            parts.append(fresh)
        self.data = b"".join(parts)
        if self.final and self._whole:
            self.data = self.data[: _complete(self.data)]
        self.ends, self.odd = line_ends(self.data, self.final)
        return True

    def drop(self, lines: int) -> None:
        """Forget the first lines."""
        if lines:
            cut = int(self.ends[lines - 1])
            self.data, self.ends = self.data[cut:], self.ends[lines:] - cut
            self.at += cut
            self.line += lines

    def start(self, line: int) -> int:
        """Where a line begins in `data`."""
        return 0 if line == 0 else int(self.ends[line - 1])

    def place(self, first: int, last: int) -> tuple[int, int, int]:
        """The number of the first line, and where the one after the last begins: byte of the text and number."""
        return self.line + first, self.at + self.start(last), self.line + last

    def places(self, first: int, last: int) -> Array:
        """The place of each of these lines."""
        lines = np.arange(self.line + first, self.line + last)
        return np.stack([lines, self.ends[first:last] + self.at, lines + 1], axis=1)

    def texts(self, first: int, last: int) -> list[str]:
        """Lines as text; bytes that are not UTF-8 are surrogates, so that the line they stand on can be named."""
        text = self.data[self.start(first) : self.start(last)].decode("utf-8", "surrogateescape")
        return list(io.StringIO(text, newline=""))

    def shown(self, first: int, last: int, most: int) -> str:
        """Lines as they are, for a person, without the last line break."""
        start = self.start(first)
        text = self.data[start : min(self.start(last), start + 4 * most)]
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
