"""The task of a comparison as a file in its folder: every process reads the same rows, and a resumed run knows them.

One .npz of plain arrays; names and labels stand in a JSON header. Nothing is pickled.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from hedgerow.core.arrays import Array, is_sparse
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.labels import is_missing
from hedgerow.core.mixed import Mixed
from hedgerow.experiment.trials import TransferTask

FILE = "task.npz"


def pack(task: TransferTask) -> tuple[str, bytes]:
    """The task as a file, and its checksum: the same for the same names, rows and labels in the same order."""
    arrays: dict[str, Any] = {}
    headers = [_header(domain, i, arrays) for i, domain in enumerate(_domains(task))]
    header = json.dumps({"name": task.name, "sources": len(task.sources), "domains": headers}, sort_keys=True)
    digest = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    content = io.BytesIO()
    np.savez(content, header=np.array(header), **arrays)
    return digest.hexdigest()[:16], content.getvalue()


def write_task(folder: Path, content: bytes) -> None:
    """Into the folder; whoever reads meanwhile sees a whole file."""
    temporary = folder / f".{FILE}.part"
    temporary.write_bytes(content)
    temporary.replace(folder / FILE)


def _domains(task: TransferTask) -> list[Domain]:
    return [*task.sources, task.stream, *([] if task.warmup is None else [task.warmup])]


def _header(domain: Domain, number: int, arrays: dict[str, Any]) -> dict[str, Any]:
    """Name, columns and labels of a domain; its rows go to `arrays`."""
    X = domain.X
    cells: dict[str, Any] = {}
    if isinstance(X, Mixed):
        parts = {f"c{j}": column for j, column in enumerate(X.columns) if column.dtype != object}
        cells = {str(j): list(map(_written, c)) for j, c in enumerate(X.columns) if c.dtype == object}
    else:
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr} if is_sparse(X) else {"X": X}
    arrays.update({f"{number}.{name}": array for name, array in parts.items()})
    names = None if domain.feature_names is None else list(map(str, domain.feature_names))
    y = domain.y
    kind = None if y is None else "O" if y.dtype == object else y.dtype.str
    labels = None if y is None else [None if gone else v for v, gone in zip(y.tolist(), is_missing(y), strict=True)]
    return {
        "name": domain.name,
        "shape": list(X.shape),
        "columns": names,
        "labels": labels,
        "kind": kind,
        "cells": cells,
    }


def _written(cell: Any) -> Any:
    """A cell of a table for JSON; dates say what they are."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, datetime.date | datetime.time):
        return {type(cell).__name__: cell.isoformat()}
    if cell is None or isinstance(cell, str | bool | int | float):
        return cell
    raise InputError(f"a cell {cell!r} of a table is {type(cell).__name__}; make it text, a number or a date")


def _read(cell: Any) -> Any:
    if not isinstance(cell, dict):
        return cell
    ((kind, text),) = cell.items()
    kinds: dict[str, Any] = {"datetime": datetime.datetime, "date": datetime.date, "time": datetime.time}
    return kinds[kind].fromisoformat(text)


@lru_cache(maxsize=2)
def read_task(folder: str, checksum: str) -> TransferTask:
    """The task of a folder; `checksum` keeps a process from answering with what it read there before."""
    try:
        with np.load(Path(folder) / FILE, allow_pickle=False) as stored:
            header = json.loads(str(stored["header"]))
            arrays = {name: stored[name] for name in stored.files if name != "header"}
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"cannot read {Path(folder) / FILE} ({error}); the folder of a comparison has to be there for every worker"
        ) from error
    found = [_domain(each, i, arrays) for i, each in enumerate(header["domains"])]
    n = header["sources"]
    return TransferTask(header["name"], tuple(found[:n]), found[n + 1] if len(found) > n + 1 else None, found[n])


def _domain(header: dict[str, Any], number: int, arrays: dict[str, Array]) -> Domain:
    cells = header["cells"]
    if f"{number}.X" in arrays:
        X: Any = arrays[f"{number}.X"]
    elif cells or f"{number}.c0" in arrays:
        width = header["shape"][1]
        columns = [_cells(cells[str(j)]) if str(j) in cells else arrays[f"{number}.c{j}"] for j in range(width)]
        X = Mixed(tuple(header["columns"]), tuple(columns))
    else:
        parts = (arrays[f"{number}.{name}"] for name in ("data", "indices", "indptr"))
        X = sp.csr_matrix(tuple(parts), shape=tuple(header["shape"]))
    labels, kind = header["labels"], header["kind"]
    y = None if labels is None else _labels(labels, kind)
    return Domain(header["name"], X, y, feature_names=header["columns"])


def _cells(written: list[Any]) -> Array:
    column = np.empty(len(written), dtype=object)
    column[:] = [_read(cell) for cell in written]
    return column


def _labels(labels: list[Any], kind: str) -> Array:
    if kind == "O":
        return np.array(labels, dtype=object)
    if np.dtype(kind).kind == "f":
        labels = [float("nan") if label is None else label for label in labels]
    return np.array(labels, dtype=np.dtype(kind))
