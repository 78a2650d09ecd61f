"""Names for files that are domains, and rows whose labels are not looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.data.inputs import stem
from hedgerow.data.readers import read


def unique_names(paths: Sequence[Path]) -> list[str]:
    """Names of files without suffix, of folders or patterns; with their folder, then their number, where two are alike.

    >>> unique_names([Path("a/x.csv"), Path("b/x.csv"), Path("y.csv")])
    ['a/x', 'b/x', 'y']
    """
    stems = [stem(str(path)) for path in paths]
    names = [
        f"{path.parent.name}/{name}" if stems.count(name) > 1 else name for path, name in zip(paths, stems, strict=True)
    ]
    return [f"{name}#{i}" if names.count(name) > 1 else name for i, name in enumerate(names, start=1)]


def read_unlabelled(path: Path, label: str) -> Domain:
    """Unlabelled rows; a label column that happens to be there is not looked at."""
    try:
        return read(path, label=label, name=stem(str(path))).unlabelled()
    except InputError as error:
        if not str(error).startswith("unknown "):  # anything but "there is no such column"
            raise
    return read(path, name=stem(str(path))).unlabelled()
