"""One task: labelled sources, unlabelled rows of the target, and what streams; how it is made, changed and fitted.

A scenario takes a task and gives a task in which something is wrong with labels, classes, target or sources, so
scenarios compose: `no_unlabelled(delayed(task, 50))`. What one draws at random (which classes, which sources) comes
from SEED, so that all methods and orders share it; the order of the stream comes from the number of the order.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow.align import JDA
from hedgerow.comparison import measure
from hedgerow.comparison.tasks import Arrivals, order_of
from hedgerow.comparison.tasks import Task as BareTask
from hedgerow.core.arrays import Array, dense, stack_rows
from hedgerow.core.domains import Domain, Frame, same_columns, split
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.values import is_missing
from hedgerow.data import load, read
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.inputs import need_encoder
from hedgerow.methods import CHOICES, METHODS, Options, Reading, reading_of
from hedgerow.mix import LossBased
from hedgerow.rows.domains import unique_names
from reproduction.stream import Labels, batches, late, missing

WARMUP = 0.3  # share of the target that comes unlabelled and in advance
SEED = 0  # of splits, and of what scenarios draw
OTHER = 10_000  # what is added to a class that never streams
DRIFTS = ("steady", "abrupt", "gradual", "recurring", "renamed")
READING_OPTIONS = frozenset(each.name for each in fields(Reading)) - {"preset"}
LOSS_BASED = ("loss", "eta")


Adaptor = Callable[[Labels, int], Labels]  # of a stream's labels, and the number of the order


@dataclass(frozen=True, eq=False)
class Task(BareTask):
    """A task of an experiment: in which order a pooled classifier sees the rows of all sources, when labels come.

    `labels` depends on the number of the order; `domains` is the family.
    """

    together: Array | None = None
    labels: Adaptor = lambda labels, order: labels
    domains: Mapping[str, Domain] = field(default_factory=dict)

    @property
    def classes(self) -> Array:
        """The classes that can stream."""
        return np.unique(np.asarray(self.stream.y))


def redrawn(task: Task, trial: int) -> Task:
    """The same with the rows of every source in another order, and all of them mixed."""
    rng = np.random.default_rng([trial, 13])
    sources = tuple(source.rows(rng.permutation(len(source))) for source in task.sources)
    return replace(task, sources=sources, together=rng.permutation(sum(map(len, sources))))


class OwnFiles(NamedTuple):
    """Files of one's own as a data set: a domain each."""

    paths: tuple[str, ...]
    label: str | None = None

    @classmethod
    def of(cls, paths: Sequence[Any], label: str | None) -> OwnFiles:
        """Of paths as they are given."""
        return cls(tuple(str(Path(path).resolve()) for path in paths), label)

    def load(self) -> dict[str, Domain]:
        """The domains by their names, with the columns that all have, in one order."""
        if len(self.paths) < 2:
            raise InputError(
                f"{len(self.paths)} domain: one is the target, the others are its sources; give two or more"
            )
        names = unique_names([Path(path) for path in self.paths])
        domains = [
            read(path, label=self.label, name=name)
            for path, name in zip(self.paths, names, strict=True)
        ]
        if need_encoder(domains):
            raise InputError(
                f"{', '.join(names)}: a study needs the same columns of numbers, without gaps, in every file; "
                "`hedgerow compare` takes tables as they are"
            )
        for domain in domains:
            if domain.y is None or is_missing(np.asarray(domain.y)).any():
                raise InputError(
                    f"domain {domain.name!r}: a study needs a label in every row; name the label column"
                )
        return {domain.name: domain for domain in same_columns(domains)}


@lru_cache(maxsize=2)
def task_of(
    data: str | OwnFiles,
    target: str,
    split_index: int = 0,
    published_split: bool = False,
    data_dir: str | None = None,
) -> Task:
    """One domain of a data set as the target, all others as its sources in the order their classifiers see them.

    The published split is taken where it is asked for and the files have one (Office+Caltech); all others are drawn
    with the seed `split_index`. Rows of a source keep the published order, or are shuffled once where there is none,
    because the files are sorted by label; for the pooled classifiers the sources are mixed at random.

    >>> task = task_of("digits", "thin")
    >>> len(task.sources), task.unlabelled, task.stream
    (4, Domain('thin', 107 x 64, unlabelled), Domain('thin', 250 x 64, 10 classes))
    """
    domains = load(data, data_dir=data_dir) if isinstance(data, str) else data.load()
    if target not in domains:
        raise unknown(
            f"domain of {data if isinstance(data, str) else 'your files'}", target, domains
        )
    streamed = domains[target]
    rng = np.random.default_rng([split_index, 7])
    seed = None if published_split and streamed.order is not None else split_index
    numbers = replace(
        streamed, X=np.arange(len(streamed), dtype=float)[:, None], feature_names=None
    )
    warmup = (
        split(numbers, WARMUP, seed)[0].X.ravel().astype(int)
    )  # which rows: they keep their labels here
    sources = tuple(
        domain.ordered() if domain.order is not None else domain.rows(rng.permutation(len(domain)))
        for name, domain in domains.items()
        if name != target
    )
    together = _mixed([len(source) for source in sources], rng)
    stream = split(streamed, WARMUP, seed)[1]
    return Task(
        target,
        sources,
        streamed.rows(warmup),
        stream,
        checksum(domains),
        together=together,
        domains=domains,
    )


def _mixed(sizes: list[int], rng: np.random.Generator) -> Array:
    """A random order of all rows in which the rows of each source keep their own order."""
    owners = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    together = np.empty(len(owners), dtype=np.int64)
    for i, start in enumerate(np.cumsum([0, *sizes[:-1]])):
        together[owners == i] = start + np.arange(sizes[i])
    return together


def checksum(domains: Mapping[str, Domain]) -> str:
    """A short fingerprint of the data as loaded, to go with every result."""
    digest = hashlib.sha256()
    for name in sorted(domains):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(dense(domains[name].X)).tobytes())
    return digest.hexdigest()[:16]


# -- scenarios: when labels arrive ------------------------------------------------------------------------------


def as_it_is(task: Task) -> Task:
    """Nothing changes."""
    return task


def delayed(task: Task, rounds: int) -> Task:
    """Labels come `rounds` arrivals late."""
    return _adapted(task, lambda labels, _: late(labels, rounds))


def lost(task: Task, share: float) -> Task:
    """A share of the labels never comes."""
    return _adapted(task, lambda labels, order: missing(labels, share, seed=order))


def batched(task: Task, size: int) -> Task:
    """Labels come `size` at a time."""
    return _adapted(task, lambda labels, _: batches(labels, size))


def _adapted(task: Task, then: Adaptor) -> Task:
    before = task.labels
    return replace(task, labels=lambda labels, order: then(before(labels, order), order))


# -- scenarios: which classes are where -------------------------------------------------------------------------


def chosen_classes(task: Task, share: float) -> Array:
    """A share of the target's classes, at least one and never all; a larger share contains a smaller one.

    >>> chosen_classes(task_of("digits", "thin"), 0.3).tolist()
    [2, 7, 8]
    """
    K = len(task.classes)
    drawn = np.random.default_rng([SEED, 3]).permutation(task.classes)
    return np.sort(drawn[: min(max(1, round(share * K)), K - 1)])


def only_in_target(task: Task, share: float) -> Task:
    """A share of the classes is in no source."""
    held = chosen_classes(task, share)
    return with_source_rows(task, [~np.isin(_y(source), held) for source in task.sources])


def appearing_late(task: Task, share: float) -> Task:
    """A share of the classes does not stream before half-time, nor is it among the unlabelled rows."""
    held = chosen_classes(task, share)
    y = _y(task.stream)

    def arrivals(order: int) -> Arrivals:
        rows = task.arriving(order).rows
        time = np.arange(len(rows), dtype=float)
        new = np.isin(y[rows], held)
        time[new] = (len(rows) + time[new]) / 2
        return Arrivals(rows[np.argsort(time, kind="stable")], (int((time < len(rows) / 2).sum()),))

    return replace(_with_warmup(task, lambda labels: ~np.isin(labels, held)), arrivals=arrivals)


def late_and_only_in_target(task: Task, share: float) -> Task:
    """A share of the classes is in no source and does not stream before half-time."""
    return appearing_late(only_in_target(task, share), share)


def missing_classes(task: Task, share: float) -> Task:
    """Each source lacks a share of the classes (at least one, never all), drawn for it; every class stays in some."""
    rng = np.random.default_rng([SEED, 5])
    K = len(task.classes)
    n = len(task.sources)
    lacking = min(max(1, round(share * K)), K - 1)
    has = np.array([rng.permutation(K) >= lacking for _ in range(n)])
    for k in np.flatnonzero(~has.any(axis=0)):
        has[rng.integers(n), k] = True
    return with_source_rows(
        task, [np.isin(_y(s), task.classes[row]) for s, row in zip(task.sources, has, strict=True)]
    )


def imbalanced(task: Task, share: float) -> Task:
    """Half of the classes keep only a share of their target rows (at least one row each); the sources stay."""
    rng = np.random.default_rng([SEED, 7])
    y = _y(task.stream)
    rare = chosen_classes(task, 0.5)
    stays = np.ones(len(y), dtype=bool)
    for label in rare:
        rows = rng.permutation(np.flatnonzero(y == label))
        stays[rows[max(1, round(share * len(rows))) :]] = False
    draw = rng.random(0 if task.warmup is None else len(task.warmup))
    thinned = replace(task, stream=task.stream.rows(np.flatnonzero(stays)), arrivals=None)
    return _with_warmup(thinned, lambda labels: ~np.isin(labels, rare) | (draw < share))


# -- scenarios: labels that follow each other -------------------------------------------------------------------


def repeating(task: Task, share: float) -> Task:
    """With probability `share` the next row is an unused one of the same class, as long as there is one, else any."""
    y = _y(task.stream)

    def arrivals(order: int) -> Arrivals:
        before = task.arriving(order)
        return before._replace(rows=before.rows[repeated(y[before.rows], share, order)])

    return replace(task, arrivals=arrivals)


def repeated(y: Array, share: float, seed: int = 0) -> Array:
    """The places of labels in an order in which a label is repeated with this probability.

    >>> y = np.array([0, 1] * 50)
    >>> [int((np.diff(y[repeated(y, share)]) == 0).sum()) for share in (0, 0.9)]
    [0, 95]
    """
    rng = np.random.default_rng([seed, 19])
    waiting = {label: deque(np.flatnonzero(y == label).tolist()) for label in dict.fromkeys(y)}
    used = np.zeros(len(y), dtype=bool)
    following = 0
    places: list[int] = []
    while len(places) < len(y):
        own = waiting[y[places[-1]]] if places and rng.random() < share else None
        if own:
            place = own.popleft()
        else:
            following += int(np.argmin(used[following:]))
            place = following
            waiting[y[place]].popleft()
        used[place] = True
        places.append(place)
    return np.array(places)


# -- scenarios: a target that changes ---------------------------------------------------------------------------


def drifting(task: Task, kind: str) -> Task:
    """The stream changes to the family's next domain, which is then no source: steady, abrupt, gradual, recurring.

    "renamed" stays with its domain, and from half-time on every class goes by the name of the next one.
    All kinds have the same sources, the same unlabelled rows (of the first domain) and the same length, so that
    "steady", where nothing changes, is what the others are compared with.
    """
    names = list(task.domains)
    other = names[(names.index(task.name) + 1) % len(names)]
    if len(task.sources) < 2:
        raise InputError(
            f"{task.name!r} has one source only: drift takes a domain away, and none would be left"
        )
    second = task.domains[other]
    n = min(len(task.stream), 2 * len(second))
    if kind == "renamed":
        second = replace(task.stream, name=f"{task.name} renamed", y=exchanged(_y(task.stream)))
    a = len(task.stream)
    b = len(second)
    both = replace(pool([task.stream, second], f"{task.name}, {other}"), feature_names=None)

    def arrivals(order: int) -> Arrivals:
        is_second, changes = switched(kind, n, order)
        place = np.where(is_second, np.cumsum(is_second), np.cumsum(~is_second)) - 1
        first = order_of(order, a)
        then = a + order_of(order, b)
        if kind == "renamed":  # the rows that would have come, not those that came
            then = np.roll(then, -int((~is_second).sum()))
        return Arrivals(np.where(is_second, then[place % b], first[place % a]), changes)

    masks = [np.full(len(source), source.name != other) for source in task.sources]
    return replace(with_source_rows(task, masks), stream=both, arrivals=arrivals)


def switched(kind: str, n: int, seed: int = 0) -> tuple[Array, tuple[int, ...]]:
    """Which of n instances come from the second domain, and where that changes.

    >>> [switched(kind, 8)[0].astype(int).tolist() for kind in ("abrupt", "recurring")]
    [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1]]
    """
    time = (np.arange(n) + 0.5) / n
    quarters = n // 4, n // 2, n - n // 4
    if kind == "steady":
        return np.zeros(n, dtype=bool), ()
    if kind in ("abrupt", "renamed"):
        return np.arange(n) >= n // 2, quarters[1:2]
    if kind == "recurring":
        return np.searchsorted(quarters, np.arange(n), side="right") % 2 == 1, quarters
    if kind != "gradual":
        raise unknown("kind of drift", kind, DRIFTS)
    chance = np.clip(2 * time - 0.5, 0, 1)  # from 0 to 1 over the middle half
    reached = np.floor(np.cumsum(chance) + np.random.default_rng([seed, 17]).random())
    return np.diff(reached, prepend=0.0) > 0.5, (quarters[0], quarters[2])


# -- scenarios: what the sources are like -----------------------------------------------------------------------


def no_unlabelled(task: Task) -> Task:
    """Not one row of the target is known in advance."""
    return replace(task, warmup=None)


def one_source(task: Task) -> Task:
    """The first source alone."""
    return with_source_rows(task, [np.full(len(s), i == 0) for i, s in enumerate(task.sources)])


def no_sources(task: Task) -> Task:
    """The target alone: what transfer is compared with. The learner is told the list of classes."""
    return with_source_rows(task, [np.zeros(len(s), dtype=bool) for s in task.sources])


def relabelled(
    task: Task, share: float, relabel: Callable[[Array, np.random.Generator], Array]
) -> Task:
    """A share of the sources (at least one) has other labels than it should."""
    rng = np.random.default_rng([SEED, 9])
    bad = rng.permutation(len(task.sources))[: max(1, round(share * len(task.sources)))]
    sources = (
        replace(s, y=relabel(_y(s), rng)) if i in bad else s for i, s in enumerate(task.sources)
    )
    return replace(task, sources=tuple(sources))


def shuffled(y: Array, rng: np.random.Generator) -> Array:
    """The labels dealt out to the rows at random: useless."""
    return rng.permutation(y)


def exchanged(y: Array, _: np.random.Generator | None = None) -> Array:
    """Every class carries the name of the next: misleading, and the same way in every source.

    >>> exchanged(np.array(["a", "b", "c", "a"])).tolist()
    ['b', 'c', 'a', 'b']
    """
    classes, codes = np.unique(y, return_inverse=True)
    return np.asarray(np.roll(classes, -1)[codes])


def others(y: Array, _: np.random.Generator | None = None) -> Array:
    """Labels that never stream, one for each class.

    >>> others(np.array([3, 1, 3])).tolist()
    [10003, 10001, 10003]
    """
    return (
        y + OTHER if y.dtype.kind in "iu" else np.array([f"other {label}" for label in y.tolist()])
    )


def with_source_rows(task: Task, masks: Sequence[Array]) -> Task:
    """The sources restricted to these rows; a source without any is no source."""
    kept = np.concatenate([np.zeros(0, dtype=bool), *masks])
    number = np.cumsum(kept) - 1
    together = np.asarray(task.together, dtype=np.int64)
    sources = tuple(
        s.rows(np.flatnonzero(m)) for s, m in zip(task.sources, masks, strict=True) if m.any()
    )
    return replace(task, sources=sources, together=number[together[kept[together]]])


def _with_warmup(task: Task, keep: Callable[[Array], Array]) -> Task:
    if task.warmup is None:
        return task
    rows = np.flatnonzero(keep(_y(task.warmup)))
    return replace(task, warmup=task.warmup.rows(rows) if len(rows) else None)


def _y(domain: Domain) -> Array:
    return np.asarray(domain.y)


# -- classifiers ------------------------------------------------------------------------------------------------


def fit(
    task: Task, method: str, reading: str = "general", **options: Any
) -> OnlineTransferClassifier:
    """The classifier that a task's sources and unlabelled rows give; without any source it is told the classes.

    >>> fit(task_of("digits", "thin"), "pa").predict_one(np.ones(64)) in range(10)
    True
    """
    return fit_in_order(classifier(method, reading, **{**task.told(), **options}), task)


def fit_in_order(clf: OnlineTransferClassifier, task: Task) -> OnlineTransferClassifier:
    """Fit on the task's domains; a classifier pooled over all sources sees their rows in the order `together`."""
    recipe = METHODS[clf.method] if isinstance(clf.method, str) else clf.method
    pooled = "pooled" in (getattr(recipe, "frozen", ""), getattr(recipe, "online", ""))
    if task.together is None or not task.sources or not pooled:
        return clf.fit_domains(list(task.sources), task.unlabelled)
    X = stack_rows([source.X for source in task.sources])[task.together]
    y = np.concatenate([_y(source) for source in task.sources])[task.together]
    owner = np.repeat(np.arange(len(task.sources)), [len(source) for source in task.sources])[
        task.together
    ]
    if task.warmup is not None:
        rows = len(task.warmup)
        X = stack_rows([X, task.warmup.X])
        y = np.concatenate([y, np.repeat(y[:1], rows)])  # which nobody looks at
        owner = np.concatenate([owner, np.full(rows, -1)])
    return clf.fit(X, y, sample_domain=owner)


def classifier(method: str, reading: str, **options: Any) -> OnlineTransferClassifier:
    """An unfitted classifier: the one place where experiments make one.

    An experiment's options are names and plain values, so that a row of results can hold them: those of the classifier,
    the answers of a reading, `rounds` of JDA, and `loss` and `eta` of HomOTL-I's mixer. They are set for all methods of
    an experiment; each method gets those that it reads.

    >>> classifier("oddm", "authors", lam=0.5).options.reading.lam, classifier("pa", "authors", lam=0.5).options.reading
    (0.5, 'authors')
    """
    mixer = {name: options.pop(name) for name in LOSS_BASED if name in options}
    if mixer:
        options["mixer"] = LossBased(**mixer, combination=options.pop("combine", None) or "simplex")
    if "rounds" in options:  # dim, lam and eigenvectors, which JDA would get by name, go with it
        answers = reading_answers(method, reading, options)
        size = {name: options.pop(name) for name in ("dim", "rounds") if name in options}
        options = {
            name: value for name, value in options.items() if name not in ("lam", "eigenvectors")
        }
        options["aligner"] = JDA(**size, lam=answers["lam"], eigenvectors=answers["eigenvectors"])
    read = options_read(method, options)
    own = {
        name: value
        for name, value in options.items()
        if name in read or name not in READING_OPTIONS
    }
    return measure.classifier(method, {"reading": reading, **own})


def options_read(method: str, options: dict[str, Any]) -> frozenset[str]:
    """The names of options that a method reads beside these.

    >>> "lam" in options_read("oddm", {}), "lam" in options_read("hedgerow", {})
    (True, False)
    """
    return METHODS[method].options(
        Options(**{name: options[name] for name in CHOICES if name in options})
    )


def reading_answers(method: str, reading: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a reading says on every question it answers, with what the options say otherwise.

    >>> reading_answers("oddm", "table", {"lam": 0.5, "dim": 10})["lam"]
    0.5
    """
    answers = reading_of(
        reading, method, **{name: options[name] for name in READING_OPTIONS & options.keys()}
    )
    return {name: value for name, value in vars(answers).items() if name in READING_OPTIONS}


def pool(domains: Sequence[Domain], name: str = "pooled") -> Domain:
    """All rows of all domains, one after the other.

    >>> pool([Domain("a", [[1.0]], ["x"]), Domain("b", [[2.0]], ["y"])])
    Domain('pooled', 2 x 1, 2 classes)
    """
    for d in domains:
        if isinstance(d.X, Frame):
            raise InputError(
                f"domain {d.name!r} has columns that are no numbers, or gaps; tables are not pooled"
            )
    alike = same_columns(domains)
    y = (
        None
        if any(d.y is None for d in alike)
        else np.concatenate([d.y for d in alike if d.y is not None])
    )
    names = next((d.feature_names for d in alike if d.feature_names is not None), None)
    return Domain(name, stack_rows([d.X for d in alike]), y, feature_names=names)
