"""The task of a comparison as a file in its folder: every process reads the same rows, and a resumed run knows them.

One .npz of plain arrays; names and labels stand in a JSON header. Nothing is pickled.
"""

from __future__ import annotations

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
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr} if is_sparse(X) else {"X": X}
    arrays |= {f"{number}.{name}": array for name, array in parts.items()}
    names = None if domain.feature_names is None else list(map(str, domain.feature_names))
    y = domain.y
    kind = None if y is None else "O" if y.dtype == object else y.dtype.str
    labels = None if y is None else [None if gone else v for v, gone in zip(y.tolist(), is_missing(y), strict=True)]
    return {"name": domain.name, "shape": list(X.shape), "columns": names, "labels": labels, "kind": kind}


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
    if f"{number}.X" in arrays:
        X: Any = arrays[f"{number}.X"]
    else:
        parts = (arrays[f"{number}.{name}"] for name in ("data", "indices", "indptr"))
        X = sp.csr_matrix(tuple(parts), shape=tuple(header["shape"]))
    labels, kind = header["labels"], header["kind"]
    y = None if labels is None else _labels(labels, kind)
    return Domain(header["name"], X, y, feature_names=header["columns"])


def _labels(labels: list[Any], kind: str) -> Array:
    if kind == "O":
        return np.array(labels, dtype=object)
    if np.dtype(kind).kind == "f":
        labels = [float("nan") if label is None else label for label in labels]
    return np.array(labels, dtype=np.dtype(kind))
