"""One task: labelled sources, unlabelled rows of the target, and what streams; made of files, tables and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import joblib
import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain, same_columns, split
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.values import is_missing
from hedgerow.inputs import (
    CLASSIFY,
    UNLABELLED,
    Rows,
    all_classes,
    domain_of,
    labelled_domains,
    named_rows,
    need_encoder,
    task_of_labels,
)
from hedgerow.rows.domains import order_in_time


class Arrivals(NamedTuple):
    """The rows of the stream in the order in which they arrive; `changes` are places where the stream changes."""

    rows: Array
    changes: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """One target with its sources. `arrivals` has the rows of the stream for the number of an order.

    `warmup` may have labels here, for scenarios that choose rows by class; a learner is given `unlabelled` only.
    """

    name: str
    sources: tuple[Domain, ...]
    warmup: Domain | None
    stream: Domain
    checksum: str = ""
    arrivals: Callable[[int], Arrivals] | None = None
    kind: str = CLASSIFY
    whole: Task | None = (
        None  # with all sources, where one was left out: what learners are told of columns and classes
    )

    @property
    def unlabelled(self) -> Domain | None:
        """The target's rows that are there in advance."""
        return None if self.warmup is None else self.warmup.unlabelled()

    @property
    def known_domains(self) -> list[Domain]:
        """Sources and, if there are any, the unlabelled rows."""
        return [*self.sources, *([] if self.warmup is None else [self.warmup])]

    @property
    def has_columns_to_encode(self) -> bool:
        """Whether any domain, with all sources, has columns that are no numbers, or gaps."""
        whole = self.whole or self
        return need_encoder([*whole.known_domains, whole.stream])

    @property
    def all_classes(self) -> Array:
        """Every label of the sources and of the stream, sorted: the table that predictions are counted in."""
        labels = [np.asarray(domain.y) for domain in (*self.sources, self.stream)]
        return all_classes([y[~is_missing(y)] for y in labels])

    def arriving(self, order: int) -> Arrivals:
        """The rows of the stream as they arrive in this order: drawn, unless the task says otherwise."""
        return (
            Arrivals(order_of(order, len(self.stream)))
            if self.arrivals is None
            else self.arrivals(order)
        )

    def arrived(self, order: int) -> Domain:
        """The stream with its rows in this order."""
        return self.stream.rows(self.arriving(order).rows)

    def without(self, name: str) -> Task:
        """The same without one source."""
        return replace(self, sources=tuple(s for s in self.sources if s.name != name), whole=self)

    def told(self) -> dict[str, Any]:
        """Options that sources and unlabelled rows do not show: the classes, that rows are of a table."""
        options: dict[str, Any] = {}
        if not self.sources:
            options["classes"] = (self.whole or self).all_classes.tolist()
        if self.has_columns_to_encode and not need_encoder(self.known_domains):
            options["table"] = {}
        return options


def order_of(trial: int, n: int) -> Array:
    """The order of the stream in a trial: the same for every method."""
    return np.random.default_rng([trial, 11]).permutation(n)


def tasks_of(
    domains: Mapping[str, Rows] | Sequence[Rows],
    label: str | None = None,
    warmup: float | None = None,
    order_by: str | None = None,
    kind: str | None = None,
) -> list[Task]:
    """A task for each domain as the target."""
    named = dict(named_rows(domains, "source {}"))
    if len(named) < 2:
        raise InputError(
            f"{len(named)} domain: each is the target once, and the others are its sources; give two or more"
        )
    made = []
    for target, rows in named.items():
        others = {name: source for name, source in named.items() if name != target}
        made.append(task_of(others, rows, label, None, warmup, order_by, kind, target))
    if len({task.kind for task in made}) > 1:
        raise InputError(
            "the labels of some domains look like numbers, those of others like classes; say which: --task"
        )
    return made


def task_of(
    sources: Mapping[str, Rows] | Sequence[Rows],
    stream: Rows,
    label: str | None = None,
    unlabelled: Rows | None = None,
    warmup: float | None = None,
    order_by: str | None = None,
    kind: str | None = None,
    name: str = "stream",
) -> Task:
    """Everything read, the columns matched by name, the stream in its order, its first rows taken as warm-up."""
    if unlabelled is not None and warmup:
        raise InputError(f"warmup={warmup} and unlabelled rows: give one of them")
    labelled = labelled_domains(named_rows(sources, "source {}"), label, order_by)
    if not labelled:
        raise InputError("no source: a comparison needs at least one labelled source")
    target, times = domain_of(stream, name, label, order_by)
    if order_by is not None:
        if times is None:
            raise unknown("time column of the stream", order_by, target.feature_names or ())
        target = target.rows(order_in_time(times, order_by, target.name))
    known = (
        None
        if unlabelled is None
        else domain_of(unlabelled, UNLABELLED, label, order_by)[0].unlabelled()
    )
    if warmup:
        known, target = split(target, warmup, seed=None)
    if target.y is None:
        raise InputError(
            f"stream {target.name!r} has no labels, so mistakes cannot be counted; name its label column"
        )
    if is_missing(target.y).all():
        raise InputError(
            f"stream {target.name!r}: every label is missing, so mistakes cannot be counted"
        )
    every = [*labelled, target, *([known] if known is not None and len(known) else [])]
    if not need_encoder(every):
        every = same_columns(every)
    checksum = joblib.hash(
        [(domain.name, domain.feature_names, domain.X, domain.y) for domain in every]
    )[:16]
    *before, target = every[: len(labelled) + 1]
    last = every[-1] if every[-1] is not target else None
    kind = task_of_labels([np.asarray(d.y) for d in (*before, target)], label, kind)
    return Task(target.name, tuple(before), last, target, checksum, kind=kind)
