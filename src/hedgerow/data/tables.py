"""Tables with named columns as domains: every format that streams have, through the same readers.

A bad row ends the reading. Errors name the file, the line or row and the column that a person will look for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.frame import Frame, cells
from hedgerow.core.values import usual_digits
from hedgerow.data.columns import BadNumber, labels_of_text, listed, plain_labels
from hedgerow.data.csv_records import DELIMITERS, refuse_numbers_as_names
from hedgerow.data.csv_rows import CsvRows
from hedgerow.data.json_rows import JsonRows
from hedgerow.data.matching import AsTheyAre, Wanted
from hedgerow.data.open_files import Files, Table
from hedgerow.data.stretches import Bad, Stretch

# Files whose columns are not all numbers, or have gaps, as domains: every cell as it is written.
#
# What is wrong with rows is reported together: each with its line, and what to do.
MOST = 20  # bad rows that one error lists


def read_mixed(files: Files, label: str | None) -> tuple[Frame, list[Any]]:
    """The rows of all files, and their labels as they are written."""
    parts: list[Frame] = []
    labels: list[Any] = []
    problems: list[str] = []
    for number in range(len(files)):
        table = files.open(number)
        try:
            found = _rows(files, number, table, label, labels, problems)
        except InputError as error:
            raise InputError(f"{files.prefix(number)}{error}") from error
        finally:
            table.close()
        if found is not None:
            parts.append(found)
    if problems:
        raise InputError(_together(problems))
    if not parts:
        what = "a header and no rows" if files.format in DELIMITERS else "no rows"
        raise InputError(f"{files.name(0)}: {what}; a domain needs at least one instance")
    return _joined(parts), labels


def _rows(
    files: Files, number: int, table: Table, label: str | None, labels: list[Any], problems: list[str]
) -> Frame | None:
    table.match(Wanted(0, None, label, None, table=AsTheyAre()))
    unit, blocks, lines = "line" if files.text else "row", [], []
    for stretch in table.stretches():
        problems += [_words(files.name(number), unit, bad) for bad in stretch.bad]
        if len(stretch.X):
            blocks.append(stretch.X)
            lines.append(stretch.lines[stretch.kinds == 0])
            labels += stretch.labels or ()
    if not blocks:
        return None
    X, where = np.concatenate(blocks), np.concatenate(lines)
    if isinstance(table, JsonRows):
        found = Frame.of_rows(X[:, 0].tolist())
        return Frame(found.names, found.columns, where, unit)
    names = [name for name in table.names if name != label]
    return Frame(tuple(names), tuple(_typed(X[:, j]) for j in range(X.shape[1])), where, unit)


def _words(file: str, unit: str, bad: Bad) -> str:
    mark = ", " if bad.reason.startswith("column") else ": "
    return f"{file}: {unit} {bad.line}{mark}{bad.reason}"


def _typed(column: Array) -> Array:
    """Numbers as floats, where every cell is one; empty cells are gaps."""
    found = column.tolist()
    try:
        if not usual_digits("".join(cell for cell in found if isinstance(cell, str))):
            raise ValueError
        return np.array([np.nan if cell is None or cell == "" else float(cell) for cell in found], np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    return cells([None if isinstance(cell, str) and not cell.strip() else cell for cell in found])


def _joined(parts: list[Frame]) -> Frame:
    """Files of one source, one after the other; a column that a file does not have is a gap there."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    columns = []
    for name in names:
        found = [part.column(name) for part in parts]
        own = [np.full(len(p), None, object) if c is None else c for c, p in zip(found, parts, strict=True)]
        alike = all(c.dtype.kind == "f" for c in own)
        columns.append(np.concatenate(own) if alike else cells(np.concatenate([c.astype(object) for c in own])))
    lines = np.concatenate([part.lines for part in parts if part.lines is not None])
    return Frame(names, tuple(columns), lines, parts[0].unit)


def _together(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    more = [f"and {len(problems) - MOST} more"] if len(problems) > MOST else []
    return "\n".join([f"{len(problems)} rows cannot be read:", *(f"  {text}" for text in problems[:MOST]), *more])


FILL = "drop the row or fill the gap first"


def read_table(files: Files, label: str | None, name: str) -> Domain:
    """The rows of all files, in their order, as one domain.

    Where not all columns but the label are numbers without gaps, they are kept as they are (`hedgerow.core.frame`).
    The columns of the first file are those of all. float32 is kept if all of them are float32. Labels are as they are
    written: "NA" and "None" are not taken for missing ones, an empty cell is.
    """
    features: list[str] | None = None
    parts: list[Array] = []
    labels: list[Any] = []
    for number in range(len(files)):
        table = files.open(number, fitting=True)
        try:
            own = _features(files, number, table, label)
            if features is None:
                features = own
            elif set(own) != set(features):
                raise _different(files, number, features, own)
            if not _read(files, number, table, Wanted(len(features), features, label, None), parts, labels):
                return _mixed(files, label, name)
        finally:
            table.close()
    if features is None or not parts:
        what = "a header and no rows" if files.format in DELIMITERS else "no rows"
        raise InputError(f"{files.name(0)}: {what}; a domain needs at least one instance")
    y = None if label is None else _labels(files, labels)
    return Domain(name, np.concatenate(parts), y, feature_names=tuple(features))


def _mixed(files: Files, label: str | None, name: str) -> Domain:
    found = [_columns(files, number, label) for number in range(len(files))]
    for number, own in enumerate(found):
        if set(own) != set(found[0]) and files.format != "jsonl":
            raise _different(files, number, found[0], own)
    table, labels = read_mixed(files, label)
    y = None if label is None else _labels(files, labels)
    return Domain(name, table, y)


def _columns(files: Files, number: int, label: str | None) -> list[str]:
    table = files.open(number)
    try:
        return _features(files, number, table, label)
    finally:
        table.close()


def _labels(files: Files, labels: list[Any]) -> Array:
    return (labels_of_text if files.format in DELIMITERS else labels_of_values)(labels)


def _features(files: Files, number: int, table: Table, label: str | None) -> list[str]:
    """The names of the feature columns of a file."""
    path = files.paths[number]
    if isinstance(table, JsonRows):
        first = table.first()
        if not isinstance(first, dict):
            raise InputError(f"{path}: the first line is not a JSON object of column names and values")
        names = list(first)
    else:
        names = table.names
    if isinstance(table, CsvRows):
        try:
            refuse_numbers_as_names(names)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    if label is not None and label not in names:
        raise unknown(f"label column of {path.name}", label, names)
    features = [column for column in names if column != label]
    if not features:
        raise InputError(f"{path}: no column but the label {label!r}; there are no features")
    return features


def _different(files: Files, number: int, features: list[str], own: list[str]) -> InputError:
    kinds = (("no", [c for c in features if c not in set(own)]), ("also", [c for c in own if c not in set(features)]))
    text = " and ".join(f"{word} column {listed([repr(c) for c in columns])}" for word, columns in kinds if columns)
    return InputError(
        f"{files.name(number)} has {text}, unlike {files.name(0)}; the files of one source have the same columns"
    )


def columns(files: Files, label: str | None) -> list[str]:
    """The features that all files have, looked for in their headers; no row is read."""
    found: list[str] = []
    for number in range(len(files)):
        table = files.open(number, fitting=True)
        try:
            own = _features(files, number, table, label)
            found = found or own
            if set(own) != set(found):
                raise _different(files, number, found, own)
            for _ in _stretches(files, number, table, Wanted(len(found), found, label, None), rows=False):
                pass
        finally:
            table.close()
    return found


def check_rows(files: Files, number: int, features: list[str], label: str | None) -> None:
    """Read a file to its first row that cannot be used, which is the error; nothing is kept."""
    table = files.open(number, fitting=True)
    try:
        for _ in _stretches(files, number, table, Wanted(len(features), features, label, None)):
            pass
    finally:
        table.close()


def _read(files: Files, number: int, table: Table, wanted: Wanted, parts: list[Array], labels: list[Any]) -> bool:
    """Whether all rows are numbers; if not, the rest is not read."""
    try:
        table.match(wanted)
        for stretch in table.stretches():
            if stretch.bad:
                return False
            parts.append(stretch.X)
            labels += stretch.labels or ()
    except BadNumber:
        return False
    except InputError as error:
        raise InputError(f"{files.name(number)}: {error}") from error
    return True


def _stretches(files: Files, number: int, table: Table, wanted: Wanted, rows: bool = True) -> Iterator[Stretch]:
    """The records of a file, or without `rows` only a look at its columns; the first bad one is an error."""
    path = files.name(number)
    try:
        table.match(wanted)
        for stretch in table.stretches() if rows else ():
            if stretch.bad:
                raise _refused(stretch.bad[0], "line" if files.text else "row")
            yield stretch
    except BadNumber as error:
        raise InputError(f"{path}: {error}; {_remedy(error)}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _refused(bad: Bad, unit: str) -> InputError:
    where, cause = f"{unit} {bad.line}", bad.cause
    if isinstance(cause, BadNumber):
        words = {"nan": "missing value (NaN)", "infinite": "infinite value"}.get(cause.problem, cause.words)
        return InputError(f"{where}, column {cause.column!r}: {words}; {_remedy(cause)}")
    return InputError(f"{where}, {bad.reason}" if bad.reason.startswith("column") else f"{where}: {bad.reason}")


def _remedy(error: BadNumber) -> str:
    if error.problem != "text":
        return FILL
    return f"drop the column, encode it as numbers, or make it the label with label={error.column!r}"


def labels_of_values(values: list[Any]) -> Array:
    """Labels of a typed column: None where one is not known."""
    if any(value is None for value in values):
        return np.array(values, dtype=object)
    return plain_labels(np.array(values)) if not isinstance(values[0], float) else np.array(values)
