"""Your own files into Domains: one reader a format.

| suffix                          | content                                            | labels                        |
|---------------------------------|----------------------------------------------------|-------------------------------|
| `.csv`, `.tsv`                  | a header line, then rows                           | the column `label`            |
| `.jsonl`, `.ndjson`, `.json`    | a line is an object of column names and values     | the column `label`            |
| `.parquet`, `.pq`               | columns                                            | the column `label`            |
| `.arrow(s)`, `.feather`, `.ipc` | Arrow IPC, file or stream: columns                 | the column `label`            |
| `.npz`                          | arrays `X`, perhaps `y`, perhaps `feature_names`   | the array `label`, else `y`   |
| `.svmlight`, `.libsvm`, `.svm`  | a line is `label index:value ...`; read as CSR     | the first field of a line     |
| `.mat`                          | v5 or v7.3, variables as in `hedgerow.data.matlab` | the variable `label`, else it |
|                                 |                                                    | is found by its usual names   |

CSV, TSV and JSON lines may be compressed: `.csv.gz`, `.csv.zst`. In the place of a file of the first four kinds there
may be a folder (all files of one kind in it, by name) or a pattern (`day-*.csv.gz`): their rows are one domain. Where
their columns are not all numbers without gaps, the domain keeps them as they are (`hedgerow.core.frame`).
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from hedgerow.core.arrays import is_sparse
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, unknown
from hedgerow.data.columns import plain_labels
from hedgerow.data.inputs import SUFFIXES, format_of, is_pattern, is_pipe, no_such_file, stem
from hedgerow.data.matlab import read_matlab
from hedgerow.data.open_files import Files
from hedgerow.data.tables import read_table


def read(
    path: str | os.PathLike[str], label: str | None = None, name: str | None = None, *, n_features: int | None = None
) -> Domain:
    """A file, a folder of files or all files of a pattern as one Domain, named after it unless `name` is given.

    Without `label` a table (CSV, TSV, JSON lines, Parquet, Arrow) is an unlabelled Domain, every column a feature. The
    other formats say themselves which part is the label; use `Domain.unlabelled()` to forget it.
    `n_features` is the width that is expected; svmlight files need it where their last features happen not to occur.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "kitchen.csv"
    ...     _ = path.write_text("weight,price,kind\\n1.5,2,mug\\n0.5,3,pan\\n")
    ...     read(path, label="kind")
    Domain('kitchen', 2 x 2, 2 classes)
    """
    path = Path(path).expanduser()
    called = stem(str(path)) if name is None else name
    reader = _READERS.get(path.suffix.lower())
    if reader is not None and not path.is_dir() and not is_pattern(str(path)):
        domain = reader(_there(path), label, called)
    else:
        domain = read_table(_tables(path), label, called)
    return domain if n_features is None else _of_width(domain, n_features, path)


def _tables(path: Path) -> Files:
    if not path.is_dir() and not is_pattern(str(path)) and format_of(path) is None:
        raise InputError(f"{path}: unknown suffix {path.suffix!r}; files can be {', '.join((*SUFFIXES, *_READERS))}")
    if is_pipe(path):
        raise InputError(f"{path}: a pipe; a source is read from files")
    files = Files.of(str(path), None)
    for file in files.paths:
        _there(file)
    return files


def _there(path: Path) -> Path:
    if not path.is_file():
        raise no_such_file(path, _READERS)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    return path


def _of_width(domain: Domain, width: int, path: Path) -> Domain:
    """The domain with this many features: a sparse matrix is widened, anything else must fit."""
    n, found = domain.X.shape
    if is_sparse(domain.X) and found < width:
        X = domain.X
        return replace(domain, X=X.__class__((X.data, X.indices, X.indptr), shape=(n, width)))
    if found != width:
        raise InputError(f"{path}: {found} features, but {width} are expected")
    return domain


def read_npz(path: Path, label: str | None, name: str) -> Domain:
    """Arrays saved with numpy.savez; never unpickled."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, TypeError) as error:
        raise InputError(
            f"{path}: not a readable .npz file of plain arrays ({error}); save it with "
            "numpy.savez(path, X=X, y=y), text labels as a str array, not as objects"
        ) from error
    if "X" not in arrays:
        raise InputError(f"{path}: no array 'X'; it holds {', '.join(arrays) or 'nothing'}; save it with X=..., y=...")
    if label is not None and label not in arrays:
        raise unknown(f"array of {path.name}", label, arrays)
    y = arrays.get("y" if label is None else label)
    names = arrays.get("feature_names")
    return Domain(name, arrays["X"], y, feature_names=None if names is None else tuple(map(str, names)))


def read_svmlight(path: Path, label: str | None, name: str) -> Domain:
    """Sparse rows; the label is the first field whatever it is called, and indices may start at 0 or 1."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path))
    except ValueError as error:
        raise InputError(
            f"{path}: not in svmlight form ({error}); each line is 'label index:value index:value'"
        ) from error
    return Domain(name, X, plain_labels(y))


_READERS = {
    ".npz": read_npz,
    ".svmlight": read_svmlight,
    ".libsvm": read_svmlight,
    ".svm": read_svmlight,
    ".mat": read_matlab,
}
