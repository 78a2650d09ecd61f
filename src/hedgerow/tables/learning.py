"""An encoder from the tables of all domains: what each column is, which are left out, which not everyone has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.mixed import Mixed
from hedgerow.tables.cells import missing
from hedgerow.tables.encoder import TableEncoder, encoded, together
from hedgerow.tables.kinds import Column, Late
from hedgerow.tables.options import TableOptions
from hedgerow.tables.recognise import Seen, recognised

NOT_HERE, NO_SOURCE = "the target does not have it", "no source has it"


@dataclass(frozen=True)
class Named:
    """A table of a domain, and how an error calls it."""

    where: str
    table: Mixed


def learn(
    sources: Sequence[Named], target: Named | None, options: TableOptions, own_columns: bool = True
) -> tuple[TableEncoder, list[Array]]:
    """The encoder, and the numbers of every domain, the target's last.

    What a column is follows from its cells in all domains, without their labels. A target that is given says which
    columns it has. Without `own_columns` those that nothing can be transferred for are left out.
    """
    domains = [*sources, *([] if target is None else [target])]
    names = tuple(dict.fromkeys(name for domain in domains for name in domain.table.names))
    for name in options.named:
        if name not in names and name not in options.new:
            raise unknown("column", name, names)
    if options.new and not own_columns:
        raise InputError(f"new={list(options.new)}: this method cannot learn columns that no source has; use hedgerow")
    columns: list[Column] = []
    own: list[Column] = []
    left_out: dict[str, str] = {}
    own += [Late(name) for name in options.new if not _has(domains, name)]
    for name in names:
        if name in options.new and not _has(domains, name):
            continue
        seen = _seen(name, domains)
        found = recognised(seen, options)
        if isinstance(found, str):
            left_out[name] = found
        elif not sources or (_has(sources, name) and (target is None or _has([target], name))):
            columns.append(found)
        elif own_columns:
            own.append(replace(found, gaps=False))
        else:
            left_out[name] = NOT_HERE if _has(sources, name) else NO_SOURCE
    lacking = _lacking(names, domains, left_out)
    _check(columns, own, domains, left_out)
    encoder = TableEncoder(tuple(columns), left_out, tuple(own), lacking)
    return encoder, _numbers(encoder, domains)


def _numbers(encoder: TableEncoder, domains: Sequence[Named]) -> list[Array]:
    """Of all domains; every cell that cannot be used is named in one error."""
    problems = []
    for domain in domains:
        for column in encoder.used:
            cells = domain.table.column(column.name)
            if cells is not None:
                problems += [(domain, row, error) for row, error in encoded(column, cells).bad]
    if problems:
        raise InputError(together([f"{d.where}, {d.table.place(row)}, {error}" for d, row, error in problems]))
    return [encoder.encode(domain.table, fitting=True, where=domain.where) for domain in domains]


def _seen(name: str, domains: Sequence[Named]) -> Seen:
    parts, gaps = [], False
    for domain in domains:
        column = domain.table.column(name)
        if column is None:
            continue
        there = _there(column)
        gaps = gaps or 0 < len(there) < len(column)
        parts.append(there)
    return Seen(name, parts, gaps)


def _there(column: Array) -> Sequence[Any] | Array:
    """The cells that are not empty; of numbers, an array."""
    if column.dtype.kind == "f":
        return np.asarray(column[~np.isnan(column)])
    return [cell for cell in column.tolist() if not missing(cell)]


def _has(domains: Sequence[Named], name: str) -> bool:
    """Whether any of them has the column, with at least one cell that is not empty."""
    columns = [domain.table.column(name) for domain in domains]
    return any(len(_there(column)) > 0 for column in columns if column is not None)


def _lacking(names: Sequence[str], domains: Sequence[Named], left_out: dict[str, str]) -> dict[str, tuple[str, ...]]:
    found = {}
    for name in names:
        without = tuple(domain.where for domain in domains if not _has([domain], name))
        if without and name not in left_out:
            found[name] = without
    return found


def _check(columns: list[Column], own: list[Column], domains: Sequence[Named], left_out: dict[str, str]) -> None:
    if columns:
        return
    if own:
        tables = "; ".join(f"{domain.where} has {', '.join(domain.table.names[:8])}" for domain in domains)
        raise InputError(f"no column is both in a source and in the target: nothing can be transferred ({tables})")
    reasons = ", ".join(f"{name} ({why})" for name, why in left_out.items()) or "there is none"
    raise InputError(f"no column can be used: {reasons}; --keep NAME (table={{'keep': [..]}}) keeps one all the same")
