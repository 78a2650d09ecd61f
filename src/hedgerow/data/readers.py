"""Your own files into Domains: one reader a suffix.

| suffix                         | content                                            | labels                        |
|--------------------------------|----------------------------------------------------|-------------------------------|
| `.csv`, `.tsv`                 | a header line, then numbers                        | the column `label`            |
| `.parquet`, `.pq`              | numeric columns                                    | the column `label`            |
| `.npz`                         | arrays `X`, perhaps `y`, perhaps `feature_names`   | the array `label`, else `y`   |
| `.svmlight`, `.libsvm`, `.svm` | a line is `label index:value ...`; read as CSR     | the first field of a line     |
| `.mat`                         | v5 or v7.3, variables as in `hedgerow.data.matlab` | the variable `label`, else it |
|                                |                                                    | is found by its usual names   |
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
from hedgerow.data.matlab import read_matlab
from hedgerow.data.tables import read_parquet, read_text


def read(
    path: str | os.PathLike[str], label: str | None = None, name: str | None = None, *, n_features: int | None = None
) -> Domain:
    """One file as a Domain, named after the file unless `name` is given.

    Without `label` a table (CSV, TSV, Parquet) is an unlabelled Domain and every column is a feature. The other formats
    say themselves which part is the label; use `Domain.unlabelled()` to forget it.
    `n_features` is the width that is expected; svmlight files need it where their last features happen not to occur.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "kitchen.csv"
    ...     _ = path.write_text("weight,price,kind\\n1.5,2,mug\\n0.5,3,pan\\n")
    ...     read(path, label="kind")
    Domain('kitchen', 2 x 2, 2 classes)
    """
    path = Path(path).expanduser()
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: unknown suffix {path.suffix!r}; files can be {', '.join(_READERS)}")
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a file; give the files one by one")
    if not path.is_file():
        raise InputError(f"{path}: no such file" + _neighbours(path))
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    domain = reader(path, label, path.stem if name is None else name)
    return domain if n_features is None else _of_width(domain, n_features, path)


def _of_width(domain: Domain, width: int, path: Path) -> Domain:
    """The domain with this many features: a sparse matrix is widened, anything else must fit."""
    n, found = domain.X.shape
    if is_sparse(domain.X) and found < width:
        X = domain.X
        return replace(domain, X=X.__class__((X.data, X.indices, X.indptr), shape=(n, width)))
    if found != width:
        raise InputError(f"{path}: {found} features, but {width} are expected")
    return domain


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f" (there is no folder {str(path.parent)!r} either)"
    others = sorted(other.name for other in path.parent.iterdir() if other.suffix.lower() in _READERS)
    return f"; {str(path.parent)!r} holds {', '.join(others[:10])}" if others else ""


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
    ".csv": read_text,
    ".tsv": read_text,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".npz": read_npz,
    ".svmlight": read_svmlight,
    ".libsvm": read_svmlight,
    ".svm": read_svmlight,
    ".mat": read_matlab,
}
