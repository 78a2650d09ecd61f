"""Tables as they are at the estimator's door: when an encoder is needed, and rows through it.

Behind the door a model of tables is one of numbers: `n_features_in_` and `feature_names_in_` are those of the numbers,
and an array is taken for rows that were encoded before, as `as_row` and `as_matrix` give them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.feature_names import names_of_row
from hedgerow.core.frame import Frame, as_frame
from hedgerow.core.preprocess import TABLE, parse
from hedgerow.methods import choose
from hedgerow.tables.columns import BadCell
from hedgerow.tables.encoder import TableEncoder, together
from hedgerow.tables.learning import Named, TableOptions, learn


def asked_for(params: Mapping[str, Any]) -> bool:
    """Whether the parameters ask for an encoder whatever the columns are."""
    return params["table"] is not None or TABLE in parse(params["preprocess"])


def table_of(params: Mapping[str, Any], X: Any, what: str) -> Frame | None:
    """X as a table that needs an encoder; None for rows of numbers."""
    found = as_frame(X, what)
    if asked_for(params):
        return found if found is not None else _of_array(X, what)
    return None if found is None or found.plain else found


def _of_array(X: Any, what: str) -> Frame:
    if is_sparse(X):
        raise InputError(f"{what}: preprocess='table' is for columns, and a sparse matrix has numbers; leave it out")
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InputError(f"{what}: expected a table with a row per instance, got an array of shape {rows.shape}")
    return Frame.of_matrix(rows, [f"x{j}" for j in range(rows.shape[1])])


def need_encoder(domains: Sequence[Domain]) -> bool:
    """Whether a domain has columns that are no numbers, or gaps, or not all have the same columns."""
    named = [set(d.feature_names) for d in domains if d.feature_names is not None]
    different = len(named) == len(domains) and any(names != named[0] for names in named)
    return different or any(isinstance(d.X, Frame) for d in domains)


def as_table(d: Domain) -> Frame:
    """The rows of a domain column by column."""
    if isinstance(d.X, Frame):
        return d.X
    if is_sparse(d.X):
        raise InputError(
            f"domain {d.name!r}: a sparse matrix beside tables; make it dense, or encode the others yourself"
        )
    return Frame.of_matrix(d.X, d.feature_names or [f"x{j}" for j in range(d.X.shape[1])])


def tables_of(params: Mapping[str, Any], domains: Sequence[Domain]) -> list[Frame] | None:
    """All domains as tables, if one of them needs an encoder, or not all have the same columns; else None."""
    if not asked_for(params) and not need_encoder(domains):
        return None
    return [as_table(d) for d in domains]


def learned(
    params: Mapping[str, Any], sources: Sequence[tuple[str, Frame]], target: Frame | None, called: str = "the target"
) -> tuple[TableEncoder, list[Array]]:
    """An encoder for these domains, and their numbers, the target's last."""
    options = TableOptions.of(params["table"])
    given = None if target is None or not len(target) else Named(called, target)
    method, chosen = choose({**params, "preprocess": None})
    own = method.takes_own_columns(chosen)
    encoder, numbers = learn([Named(name, table) for name, table in sources], given, options, own)
    if given is None and target is not None:
        numbers.append(np.empty((0, encoder.width)))
    return encoder, numbers


def numbers_of(encoder: TableEncoder | None, d: Domain) -> Matrix:
    """The rows of a domain that a model was fitted on, by its encoder, if it has one."""
    if encoder is None:
        return d.X
    table = d.X if isinstance(d.X, Frame) else Frame.of_matrix(d.X, d.feature_names or ())
    return encoder.encode(table, fitting=True, where=d.name)


def matrix(encoder: TableEncoder, X: Any) -> Any:
    """Rows as numbers: a table by its names; an array is encoded already."""
    if _are_mappings(X):
        numbers, bad = _of_mappings(encoder, X)
        if bad:
            raise InputError(together([f"X, row {i}{_mark(why)}{why}" for i, why in bad.items()]))
        return numbers
    found = _by_position(encoder, X) if isinstance(X, np.ndarray) and X.ndim == 2 else as_frame(X, "X")
    if found is None:
        return X
    _check_some(encoder, found.names, "X")
    return encoder.encode(found)


def usable(encoder: TableEncoder, X: Any) -> tuple[Array, dict[int, str]] | None:
    """The numbers of rows, and why some cannot be used (zeros stand for these); None for what is no table.

    Only a table that has none of the columns is refused as a whole.
    """
    if _are_mappings(X):
        return _of_mappings(encoder, X)
    found = None if isinstance(X, np.ndarray) else as_frame(X, "X")
    if found is None:
        return None
    _check_some(encoder, found.names, "X")
    reasons = {i: "; ".join(map(str, errors)) for i, errors in encoder.problems(found).items()}
    good = np.array([i for i in range(len(found)) if i not in reasons], dtype=np.intp)
    numbers = np.zeros((len(found), encoder.width))
    numbers[good] = encoder.encode(found[good])
    return numbers, reasons


def _are_mappings(X: Any) -> bool:
    return isinstance(X, list) and bool(X) and all(isinstance(row, Mapping) for row in X)


def _of_mappings(encoder: TableEncoder, rows: Sequence[Mapping[Any, Any]]) -> tuple[Array, dict[int, str]]:
    numbers, bad = np.zeros((len(rows), encoder.width)), {}
    for i, row in enumerate(rows):
        try:
            _check_some(encoder, row, "")
            numbers[i] = encoder.of_mapping(row)
        except BadCell:
            bad[i] = "; ".join(map(str, encoder.problems_of_mapping(row)))
        except InputError as error:
            bad[i] = str(error)
    return numbers, bad


def _mark(reason: str) -> str:
    return ", " if reason.startswith("column") else ": "


def row(encoder: TableEncoder, x: Any) -> Any:
    """One row as numbers: a mapping, a Series or a table of one row; an array is encoded already."""
    if isinstance(x, np.ndarray) or is_sparse(x):
        found = _by_position(encoder, x[None]) if isinstance(x, np.ndarray) and x.ndim == 1 else None
        return x if found is None else encoder.encode(found, where="x")[0]
    if isinstance(x, Mapping):
        _check_some(encoder, x, "x")
        return np.array(encoder.of_mapping(x))
    names = names_of_row(x)
    if names is None:
        return x
    found = as_frame(x, "x")
    if found is not None:
        if len(found) != 1:
            raise InputError(f"x: expected one instance, got a table of {len(found)} rows")
        return matrix(encoder, x)[0]
    return row(encoder, dict(zip(names, x.tolist(), strict=True)))


def _by_position(encoder: TableEncoder, X: Array) -> Frame | None:
    """Rows of an array as the columns of the array that the model was fitted on, if that had no names; else None."""
    names = [f"x{j}" for j in range(X.shape[1])]
    known = {*encoder.names, *encoder.left_out}
    return Frame.of_matrix(X, names) if X.shape[1] != encoder.width and known == set(names) else None


def _check_some(encoder: TableEncoder, names: Any, what: str) -> None:
    """A row may lack columns, but not all of them."""
    if not any(name in names for name in encoder.names):
        raise InputError(
            f"{what}{': ' if what else ''}none of the model's columns is there ({', '.join(encoder.names[:8])}); "
            "give them by name"
        )
