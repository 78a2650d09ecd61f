"""MATLAB files, v5 (read by scipy) and v7.3 (HDF5, read by h5py), in the shapes that transfer learning papers use.

| variables             | where it is met                                                                    |
|-----------------------|------------------------------------------------------------------------------------|
| `data` and `ID_old`   | HomOTL-ODDM: the label is the first column of `data`, `ID_old` is a 1-based order  |
| `fts` and `labels`    | Office+Caltech SURF, Amazon reviews                                                |
| `fea` and `gnd`       | PIE and other sets of faces                                                        |
| `X` and `y` (or `Y`)  | everybody else                                                                     |
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Matrix, is_sparse
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, require, unknown
from hedgerow.data.columns import plain_labels

FEATURES = ("X", "fts", "fea", "data")
LABELS = ("y", "Y", "labels", "gnd")


def read_matlab(path: Path, label: str | None, name: str) -> Domain:
    """A .mat file as a Domain; `label` names the variable of the labels where it is none of the usual ones."""
    variables = contents(path)
    if label is None and {"data", "ID_old"} <= variables.keys():
        return _authors_layout(variables, name)
    if label is not None and label not in variables:
        raise unknown(f"variable of {path.name}", label, variables)
    target = label if label is not None else next((key for key in LABELS if key in variables), None)
    features = next((key for key in FEATURES if key in variables and key != target), None)
    if features is None:
        raise InputError(
            f"{path}: no variable {', '.join(FEATURES)} with the features; it holds {', '.join(variables) or 'nothing'}"
        )
    y = None if target is None else plain_labels(np.asarray(variables[target]).ravel())
    X = variables[features]
    return Domain(name, X if is_sparse(X) else np.ascontiguousarray(X), y)


def contents(path: Path) -> dict[str, Any]:
    """The numeric variables of a .mat file of either version, shaped as MATLAB shows them."""
    with path.open("rb") as stream:
        head = stream.read(520)
    try:
        if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520]):  # v7.3 keeps a 512-byte MATLAB header before the HDF5
            return _contents_hdf5(path)
        import scipy.io

        return {key: value for key, value in scipy.io.loadmat(path).items() if _usable(key, value)}
    except (ValueError, TypeError, OSError, NotImplementedError, IndexError) as error:
        raise InputError(f"{path}: not a readable MATLAB file ({error}); save it again with -v7 or -v7.3") from error


def _contents_hdf5(path: Path) -> dict[str, Any]:
    h5py = require("h5py", extra="data")
    with h5py.File(path, "r") as file:
        # MATLAB stores columns first, HDF5 says rows first: every array comes out transposed.
        return {
            key: node[()].T
            for key, node in file.items()
            if isinstance(node, h5py.Dataset) and node.dtype.kind in "fiub"
        }


def _usable(key: str, value: Matrix) -> bool:
    return not key.startswith("__") and (is_sparse(value) or getattr(value, "dtype", np.dtype(object)).kind in "fiubU")


def _authors_layout(variables: dict[str, Any], name: str) -> Domain:
    data = variables["data"]
    order = np.asarray(variables["ID_old"]).ravel().astype(np.int64) - 1
    return Domain(name, np.ascontiguousarray(data[:, 1:], dtype=np.float64), plain_labels(data[:, 0]), order=order)
