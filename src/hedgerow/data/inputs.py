"""Which files an input means: one file, all files of a folder, or those that match a pattern; and of which format.

| format    | suffixes                                | also compressed |
|-----------|-----------------------------------------|-----------------|
| `csv`     | `.csv`                                  | `.gz`, `.zst`   |
| `tsv`     | `.tsv`                                  | `.gz`, `.zst`   |
| `jsonl`   | `.jsonl`, `.ndjson`, `.json`            | `.gz`, `.zst`   |
| `parquet` | `.parquet`, `.pq`                       | within itself   |
| `arrow`   | `.arrow`, `.arrows`, `.feather`, `.ipc` | within itself   |
"""

from __future__ import annotations

import glob
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hedgerow.core.errors import InputError, unknown
from hedgerow.data.columns import listed

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
COMPRESSED = (".gz", ".zst")
TEXT = ("csv", "tsv", "jsonl")
FORMATS = (*TEXT, "parquet", "arrow")


@dataclass(frozen=True)
class Inputs:
    """The files of an input in the order in which they are read. Format None: to be told by the first line."""

    files: tuple[Path, ...]
    format: str | None


def files_of(input: str, format: str | None = None) -> Inputs:
    """The files that an input means.

    >>> files_of("no/such/folder/*.csv")
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: no/such/folder/*.csv: no file matches this pattern
    """
    if format is not None and format not in FORMATS:
        raise unknown("format", format, FORMATS)
    path = Path(input).expanduser()
    if path.is_dir():
        return _of_folder(input, path, format)
    if is_pattern(input):
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        files = [name for name in found if name.is_file()]
        if not files:
            raise InputError(f"{input}: no file matches this pattern" + (" (folders do)" if found else ""))
        return Inputs(tuple(files), format or _one_format(input, files))
    if not path.exists():
        raise no_such_file(path)
    return Inputs((path,), format or format_of(path))


def is_pattern(input: str) -> bool:
    """Whether the text has a mark that stands for other names, and is no name itself.

    >>> is_pattern("day-*.csv"), is_pattern("day.csv")
    (True, False)
    """
    return glob.has_magic(input) and not Path(input).expanduser().exists()


def format_of(path: Path) -> str | None:
    """The format by the suffix, None for one that is not known.

    >>> format_of(Path("a.CSV.gz")), format_of(Path("a.feather")), format_of(Path("a.txt"))
    ('csv', 'arrow', None)
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    inner = suffixes[:-1] if suffixes and suffixes[-1] in COMPRESSED else suffixes
    found = SUFFIXES.get(inner[-1]) if inner else None
    if found is not None and found not in TEXT and inner is not suffixes:
        raise InputError(f"{path}: {found} files are compressed within themselves; unpack it and give that file")
    return found


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
    plain = name.split("*")[0].split("?")[0].split("[")[0].rstrip("-_. ")
    return plain or next((part for part in reversed(path.parts[:-1]) if not glob.has_magic(part)), path.name)


def is_pipe(path: Path) -> bool:
    """Whether what is there can be read only once, and only as it comes."""
    return path.exists() and (stat.S_ISFIFO(mode := path.stat().st_mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode))


def _of_folder(input: str, path: Path, format: str | None) -> Inputs:
    """Hidden files, markers such as _SUCCESS, folders and files of other suffixes are no part of the data."""
    files = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
    known = [file for file in files if format_of(file) is not None]
    if not known:
        there = f"; it holds {listed([file.name for file in files])}" if files else ", it is empty"
        raise InputError(f"{input}: no file of a known format in this folder ({', '.join(SUFFIXES)}){there}")
    return Inputs(tuple(known), format or _one_format(input, known))


def _one_format(input: str, files: list[Path]) -> str:
    formats = {file.name: format_of(file) for file in files}
    if None in formats.values():
        name = next(name for name, found in formats.items() if found is None)
        raise InputError(f"{input}: {name} has no known suffix ({', '.join(SUFFIXES)}); make the pattern narrower")
    (first, format), *_ = formats.items()
    for name, found in formats.items():
        if found != format:
            raise InputError(
                f"{input}: files of different formats, {first} and {name}; "
                f"choose one with a pattern, for instance '*{_suffixes(Path(first))}'"
            )
    return str(format)


def no_such_file(path: Path, also: Iterable[str] = ()) -> InputError:
    """The error for a file that is not there, with those beside it that could be meant."""
    if not path.parent.is_dir():
        return InputError(f"{path}: no such file (there is no folder {str(path.parent)!r} either)")
    known = {*SUFFIXES, *also}
    others = sorted(other.name for other in path.parent.iterdir() if _last_suffix(other) in known)
    beside = f"; {str(path.parent)!r} holds {', '.join(others[:10])}" if others else ""
    return InputError(f"{path}: no such file{beside}")


def _suffixes(path: Path) -> str:
    return _last_suffix(path) + (compression_of(path) or "")


def _last_suffix(path: Path) -> str:
    """The suffix that says what is in the file."""
    return (path.with_suffix("") if compression_of(path) else path).suffix.lower()
