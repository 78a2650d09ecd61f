"""Files as domains: what sources and unlabelled target rows are read from.

| suffix                          | content                                            | labels                        |
|---------------------------------|----------------------------------------------------|-------------------------------|
| `.csv`, `.tsv`                  | a header line, then rows                           | the column `label`            |
| `.jsonl`, `.ndjson`, `.json`    | a line is an object of column names and values     | the column `label`            |
| `.parquet`, `.pq`               | columns                                            | the column `label`            |
| `.arrow(s)`, `.feather`, `.ipc` | Arrow IPC, file or stream: columns                 | the column `label`            |
| `.mat`                          | MATLAB v5 (scipy) or v7.3 (HDF5, by h5py)          | the variable `label`, else it |
|                                 |                                                    | is found by its usual names   |

CSV, TSV and JSON lines may be compressed: `.csv.gz`. In the place of a file of the first four kinds there
may be a folder (all files of one kind in it, by name) or a pattern (`day-*.csv.gz`): their rows are one domain. Where
their columns are not all numbers without gaps, the domain keeps them as they are (`hedgerow.core.domains`).

MATLAB files have their variables in the shapes that transfer learning papers use:

| variables             | where it is met                                                                    |
|-----------------------|------------------------------------------------------------------------------------|
| `data` and `ID_old`   | HomOTL-ODDM: the label is the first column of `data`, `ID_old` is a 1-based order  |
| `fts` and `labels`    | Office+Caltech SURF, Amazon reviews                                                |
| `fea` and `gnd`       | PIE and other sets of faces                                                        |
| `X` and `y` (or `Y`)  | everybody else                                                                     |
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, is_sparse
from hedgerow.core.domains import Domain, Frame, order_by_name
from hedgerow.core.errors import InputError, grouped, require, together, unknown
from hedgerow.core.values import BadCell, as_float, cells, composed, date_form, is_gap, moment
from hedgerow.rows import open_file
from hedgerow.rows.inputs import SUFFIXES, Files, format_of, is_pattern, no_such_file, stem
from hedgerow.rows.readers import DELIMITERS, Bad, CsvReader, Records
from hedgerow.rows.wanted import Wanted, is_blank, labels_of_text, labels_of_values, plain_labels

MATLAB = ".mat"
MATLAB_FEATURES = ("X", "fts", "fea", "data")
MATLAB_LABELS = ("y", "Y", "labels", "gnd")


def read(path: str | os.PathLike[str], label: str | None = None, name: str | None = None) -> Domain:
    """A file, a folder of files or all files of a pattern as one domain.

    Parameters
    ----------
    path
        The file, folder or pattern; its suffix says what it is.
    label
        The column of the labels. Without it a table (CSV, TSV, JSON lines, Parquet, Arrow) is an unlabelled domain,
        every column a feature. A MATLAB file says itself which part is the label; `Domain.unlabelled()`
        forgets it.
    name
        What the domain is called; by default as the file.

    Returns
    -------
    Domain
        Raw values, rows in the order of the file. Text labels are as they are written, in Unicode's composed form:
        "NA" and "None" are not taken for missing ones, an empty cell is.

    Raises
    ------
    InputError
        With the file, and the line or row and the column that a person will look for.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "kitchen.csv"
    ...     _ = path.write_text("weight,price,kind\\n1.5,2,mug\\n0.5,3,pan\\n")
    ...     read(path, label="kind")
    Domain('kitchen', 2 x 2, 2 classes)
    """
    path = Path(path).expanduser()
    called = stem(str(path)) if name is None else name
    if path.suffix.lower() == MATLAB and not path.is_dir() and not is_pattern(str(path)):
        return read_matlab(_there(path), label, called)
    return read_table(_tables(path), label, called)


def read_unlabelled(path: str | os.PathLike[str], label: str | None) -> Domain:
    """Unlabelled rows; a label column that happens to be there is not looked at."""
    try:
        return read(path, label=label).unlabelled()
    except InputError as error:
        if not str(error).startswith("unknown "):  # anything but "there is no such column"
            raise
    return read(path).unlabelled()


def unique_names(paths: Sequence[Path]) -> list[str]:
    """Names of files without suffix, of folders or patterns; with their folder, then their number, where two are alike.

    >>> unique_names([Path("a/x.csv"), Path("b/x.csv"), Path("y.csv")])
    ['a/x', 'b/x', 'y']
    """
    stems = [stem(str(path)) for path in paths]
    twice = [f"{path.parent.name}/{name}" for path, name in zip(paths, stems, strict=True)]
    names = [
        longer if stems.count(name) > 1 else name for name, longer in zip(stems, twice, strict=True)
    ]
    return [
        f"{name}#{i}" if names.count(name) > 1 else name for i, name in enumerate(names, start=1)
    ]


def _tables(path: Path) -> Files:
    if not path.is_dir() and not is_pattern(str(path)) and format_of(path) is None:
        raise InputError(
            f"{path}: unknown suffix {path.suffix!r}; files can be {', '.join((*SUFFIXES, MATLAB))}"
        )
    if not path.exists() and not is_pattern(str(path)):
        raise no_such_file(path, [MATLAB])
    files = Files.of(str(path))
    files.detects = True
    if files.live:
        raise InputError(f"{path}: a pipe; a source is read from files")
    for file in files.paths:
        _there(file)
    return files


def _there(path: Path) -> Path:
    if not path.is_file():
        raise no_such_file(path, [MATLAB])
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    return path


# ---- tables


def read_table(files: Files, label: str | None, name: str) -> Domain:
    """The rows of all files, in their order, as one domain.

    The columns of the first file are those of all. float32 is kept if all of them are float32.
    """
    label = None if label is None else composed(label)
    table = _rows(files, label, raw=False) or _rows(files, label, raw=True)
    if table is None:
        what = "a header and no rows" if files.format in DELIMITERS else "no rows"
        raise InputError(f"{files.names[0]}: {what}; a domain needs at least one instance")
    features, X, labels, lines = table
    labels = files.dialect.relabelled(labels)
    y = (
        None
        if label is None
        else (labels_of_text if files.format in DELIMITERS else labels_of_values)(labels)
    )
    if X.dtype != object:
        return Domain(name, X, y, feature_names=tuple(features))
    columns = tuple(map(_typed, X.T))
    if files.format == "jsonl":
        frame = Frame.of_rows(X[:, 0].tolist())
        features = list(frame.names)
        columns = frame.columns
    return Domain(name, Frame(tuple(features), columns, lines, files.unit), y)


def _rows(
    files: Files, label: str | None, raw: bool
) -> tuple[list[str], Array, list[Any], Array] | None:
    """Features, rows, labels and lines; None if numbers were wanted and a cell is none. Bad rows are told together."""
    features: list[str] = []
    blocks: list[Records] = []
    problems: list[tuple[str, str]] = []
    for number, name in enumerate(files.names):
        with closing(open_file(files, number, fitting=not raw)) as reader:
            with files.naming(number):
                names = reader.header()
                if isinstance(reader, CsvReader):
                    reader.refuse_numbers_as_names()
            if label is not None and label not in names:
                raise unknown(f"label column of {Path(name).name}", label, names)
            own = [column for column in names if column != label]
            if not own:
                raise InputError(
                    f"{name}: no column but the label {label!r}; there are no features"
                )
            features = features or own
            if not (raw and files.format == "jsonl"):
                order_by_name(own, features, name, f"those of {files.names[0]}")
            with files.naming(number):
                try:
                    reader.match(Wanted(len(features), features, label, None, raw=raw))
                except BadCell:
                    return None
                for records in reader.records():
                    for bad in (item for item in records.others if isinstance(item, Bad)):
                        if not raw:
                            return None
                        problems.append((f"{name}: {files.unit} {bad.line}", bad.reason))
                    blocks.append(records)
    if problems:
        raise InputError(together(grouped(problems), "rows cannot be read"))
    every = Records.joined(blocks) if blocks else None
    return None if every is None else (features, every.X, every.labels, every.places[:, 0])


def _typed(column: Array) -> Array:
    """Numbers as floats, where every cell is one; empty cells are gaps."""
    values = [None if is_blank(cell) else cell for cell in column]
    numbers = [math.nan if cell is None else as_float(cell) for cell in values]
    texts = None in numbers or any(type(cell) is bool for cell in values)
    return cells(values) if texts else np.array(numbers, np.float64)


# ---- MATLAB


def read_matlab(path: Path, label: str | None, name: str) -> Domain:
    """A .mat file; `label` names the variable of the labels where it is none of the usual ones."""
    variables = _matlab_variables(path)
    if (
        label is None and {"data", "ID_old"} <= variables.keys()
    ):  # as the authors of HomOTL-ODDM have it
        data = variables["data"]
        order = np.asarray(variables["ID_old"]).ravel().astype(np.int64) - 1
        return Domain(
            name,
            np.ascontiguousarray(data[:, 1:], dtype=np.float64),
            plain_labels(data[:, 0]),
            order=order,
        )
    if label is not None and label not in variables:
        raise unknown(f"variable of {path.name}", label, variables)
    target = (
        label
        if label is not None
        else next((key for key in MATLAB_LABELS if key in variables), None)
    )
    features = next((key for key in MATLAB_FEATURES if key in variables and key != target), None)
    if features is None:
        held = ", ".join(variables) or "nothing"
        raise InputError(
            f"{path}: no variable {', '.join(MATLAB_FEATURES)} with the features; it holds {held}"
        )
    y = None if target is None else plain_labels(np.asarray(variables[target]).ravel())
    X = variables[features]
    return Domain(name, X if is_sparse(X) else np.ascontiguousarray(X), y)


def _matlab_variables(path: Path) -> dict[str, Any]:
    """The numeric variables of a .mat file of either version, shaped as MATLAB shows them."""
    with path.open("rb") as stream:
        head = stream.read(520)
    try:
        if b"\x89HDF\r\n\x1a\n" in (
            head[:8],
            head[512:520],
        ):  # v7.3 keeps a 512-byte MATLAB header before the HDF5
            h5py = require("h5py", extra="files")
            with h5py.File(path, "r") as file:
                # MATLAB stores columns first, HDF5 says rows first: every array comes out transposed.
                nodes = {key: node for key, node in file.items() if isinstance(node, h5py.Dataset)}
                return {key: node[()].T for key, node in nodes.items() if node.dtype.kind in "fiub"}
        import scipy.io

        found = scipy.io.loadmat(path)
        kinds = {
            key: "f" if is_sparse(value) else np.asarray(value).dtype.kind
            for key, value in found.items()
        }
        return {
            key: value
            for key, value in found.items()
            if not key.startswith("__") and kinds[key] in "fiubU"
        }
    except (ValueError, TypeError, OSError, NotImplementedError, IndexError) as error:
        raise InputError(
            f"{path}: not a readable MATLAB file ({error}); save it again with -v7 or -v7.3"
        ) from error


# ---- a column that says when: rows are put into its order, and it is no feature


def without_time(domain: Domain, time: str) -> tuple[Domain, Array | None]:
    """A domain of a file without its time column, and the times as written; None if it has no such column."""
    name = domain.name
    time = composed(time)
    names = [str(column) for column in domain.feature_names or ()]
    if time not in names:
        return domain, None
    if len(names) == 1:
        raise InputError(
            f"{name}: no column but the time {time!r} and the label; there are no features"
        )
    at = names.index(time)
    rest = [i for i, column in enumerate(names) if column != time]
    kept = tuple(names[i] for i in rest)
    X = domain.X
    if isinstance(X, Frame):
        table = Frame(kept, tuple(X.columns[i] for i in rest), X.lines, X.unit)
        return Domain(name, table, domain.y), X.columns[at]
    return Domain(name, np.ascontiguousarray(X[:, rest]), domain.y, feature_names=kept), np.asarray(
        X[:, at]
    )


def order_in_time(times: Sequence[Any] | Array, column: str, where: str) -> Array:
    """The order of the rows by their times: numbers, or dates; equal ones stay as they are.

    >>> order_in_time(["10", "9", "10.5"], "t", "x.csv").tolist()
    [1, 0, 2]
    >>> order_in_time(["2024-03-01", "2024-02-28T12:00"], "t", "x.csv").tolist()
    [1, 0]
    """
    values = np.asarray(times)
    as_written = values.tolist()
    missing = (
        values != values
        if values.dtype.kind in "Mmiuf"
        else np.array([is_gap(value) for value in as_written])
    )
    if missing.any():
        row = int(np.flatnonzero(missing)[0]) + 1
        raise InputError(
            f"{where}, column {column!r}: no time in row {row}; drop the row or fill it"
        )
    if values.dtype.kind in "Mmiuf":
        return np.argsort(values, kind="stable")
    form = date_form(as_written)
    numbers = [
        value if value is not None and math.isfinite(value) else None
        for value in map(as_float, as_written)
    ]
    dates = [moment(value, form) for value in as_written]
    seconds = next((reading for reading in (numbers, dates) if None not in reading), None)
    if seconds is None:
        # the first that is not what those before it are
        row = max(reading.index(None) for reading in (numbers, dates))
        raise InputError(
            f"{where}, column {column!r}: {str(as_written[row])!r} in row {row + 1} is not a time; write numbers, or "
            "dates as 2024-03-01 or 2024-03-01T12:30:00"
        )
    return np.argsort(np.array(seconds, dtype=float), kind="stable")
