"""One task: labelled sources, unlabelled rows of the target, and what streams; how it is made, how it is fitted."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hedgerow.align import JDA
from hedgerow.core.arrays import Array, dense
from hedgerow.core.domains import Domain, split
from hedgerow.core.errors import unknown
from hedgerow.core.labels import is_missing
from hedgerow.data import load
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.inputs import all_classes, need_encoder
from hedgerow.lab.stream import Event
from hedgerow.methods import CHOICES, METHODS, Options, Reading, reading_of
from hedgerow.mix import LossBased

WARMUP = 0.3  # share of the target that comes unlabelled and in advance
READING_OPTIONS = frozenset(each.name for each in fields(Reading)) - {"preset"}
LOSS_BASED = ("loss", "eta")


class Arrivals(NamedTuple):
    """The rows of the stream in the order in which they arrive; `changes` are places where the stream changes."""

    rows: Array
    changes: tuple[int, ...] = ()


Adaptor = Callable[[Iterator[Event], int], Iterator[Event]]  # of a stream's events, and the number of the order


@dataclass(frozen=True, eq=False)
class Task:
    """One target with its sources. What depends on the number of the order: `arrivals`, and `labels`, when they come.

    `together` is the order in which a pooled classifier sees the rows of all sources. `warmup` may have labels here,
    for scenarios that choose rows by class; a learner is given `unlabelled` only. `domains` is the family.
    """

    name: str
    sources: tuple[Domain, ...]
    warmup: Domain | None
    stream: Domain
    checksum: str = ""
    together: Array | None = None
    arrivals: Callable[[int], Arrivals] | None = None
    labels: Adaptor = lambda events, order: events
    domains: Mapping[str, Domain] = field(default_factory=dict)

    @property
    def unlabelled(self) -> Domain | None:
        """The target's rows that are there in advance."""
        return None if self.warmup is None else self.warmup.unlabelled()

    @property
    def classes(self) -> Array:
        """The classes that can stream."""
        return np.unique(np.asarray(self.stream.y))

    @property
    def all_domains(self) -> list[Domain]:
        """Sources, stream and, if there are any, the unlabelled rows."""
        return [*self.sources, self.stream, *([] if self.warmup is None else [self.warmup])]

    @property
    def all_classes(self) -> Array:
        """Every label of the sources and of the stream, sorted: the table that predictions are counted in."""
        labels = [np.asarray(domain.y) for domain in (*self.sources, self.stream)]
        return all_classes([y[~is_missing(y)] for y in labels])

    def arriving(self, order: int) -> Arrivals:
        """The rows of the stream as they arrive in this order: drawn, unless the task says otherwise."""
        return Arrivals(order_of(order, len(self.stream))) if self.arrivals is None else self.arrivals(order)

    def redrawn(self, trial: int) -> Task:
        """The same with the rows of every source in another order, and all of them mixed."""
        rng = np.random.default_rng([trial, 13])
        sources = tuple(source.rows(rng.permutation(len(source))) for source in self.sources)
        return replace(self, sources=sources, together=rng.permutation(sum(map(len, sources))))


@lru_cache(maxsize=2)
def task_of(
    data: str, target: str, split_index: int = 0, published_split: bool = False, data_dir: str | None = None
) -> Task:
    """One domain of a data set as the target, all others as its sources in the order their classifiers see them.

    The published split is taken where it is asked for and the files have one (Office+Caltech); all others are drawn
    with the seed `split_index`. Rows of a source keep the published order, or are shuffled once where there is none,
    because the files are sorted by label; for the pooled classifiers the sources are mixed at random.

    >>> task = task_of("digits", "thin")
    >>> len(task.sources), task.unlabelled, task.stream
    (4, Domain('thin', 107 x 64, unlabelled), Domain('thin', 250 x 64, 10 classes))
    """
    domains = load(data, data_dir=data_dir)
    if target not in domains:
        raise unknown(f"domain of {data}", target, domains)
    streamed = domains[target]
    rng = np.random.default_rng([split_index, 7])
    seed = None if published_split and streamed.order is not None else split_index
    numbers = replace(streamed, X=np.arange(len(streamed), dtype=float)[:, None], feature_names=None)
    warmup = split(numbers, WARMUP, seed)[0].X.ravel().astype(int)  # which rows: they keep their labels here
    sources = tuple(
        domain.ordered() if domain.order is not None else domain.rows(rng.permutation(len(domain)))
        for name, domain in domains.items()
        if name != target
    )
    together = _mixed([len(source) for source in sources], rng)
    stream = split(streamed, WARMUP, seed)[1]
    return Task(
        target, sources, streamed.rows(warmup), stream, checksum(domains), together=together, domains=domains
    )  # fmt: skip


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


def order_of(trial: int, n: int) -> Array:
    """The order of the stream in a trial: the same for every method."""
    return np.random.default_rng([trial, 11]).permutation(n)


# -- classifiers ------------------------------------------------------------------------------------------------


def fit(
    task: Task, method: str, reading: str = "general", align: Any = None, **options: Any
) -> OnlineTransferClassifier:
    """The classifier that a task's sources and unlabelled rows give; without any source it is told the classes.

    >>> fit(task_of("digits", "thin"), "pa").predict_one(np.ones(64)) in range(10)
    True
    """
    if not task.sources:
        options.setdefault("classes", task.all_classes.tolist())
    given = [*task.sources, *([] if task.warmup is None else [task.warmup])]
    if need_encoder(task.all_domains) and not need_encoder(given):
        options["table"] = {}  # the stream alone has gaps or other columns: whoever learns it needs an encoder
    more = {} if align is None else {"align": align}
    return classifier(method, reading, **options).fit_domains(
        list(task.sources), task.unlabelled, together=task.together, **more
    )


def classifier(method: str, reading: str, **options: Any) -> OnlineTransferClassifier:
    """An unfitted classifier: the one place where experiments make one.

    An experiment's options are names and plain values, so that a row of results can hold them: those of the classifier,
    the answers of a reading, `rounds` of JDA, and `loss` and `eta` of HomOTL-I's mixer. They are set for all methods of
    an experiment; each method gets those that it reads.

    >>> classifier("oddm", "authors", dim=10, lam=0.5).reading.lam, classifier("pa", "authors", lam=0.5).reading
    (0.5, 'authors')
    """
    given = {name: value for name, value in options.items() if name not in LOSS_BASED}
    mixer = {name: options[name] for name in LOSS_BASED if name in options}
    if mixer:
        given["mixer"] = LossBased(**mixer, combination=given.pop("combine", None) or "simplex")
    if "rounds" in given:  # dim, lam and eigenvectors, which JDA would get by name, go with it
        answers = reading_answers(method, reading, given)
        own = {name: given.pop(name) for name in ("dim", "rounds") if name in given}
        given = {name: value for name, value in given.items() if name not in ("lam", "eigenvectors")}
        given["aligner"] = JDA(**own, lam=answers["lam"], eigenvectors=answers["eigenvectors"])
    read = options_read(method, given)
    answers = {name: given.pop(name) for name in READING_OPTIONS & given.keys() - {"preprocess"}}
    answers = {name: value for name, value in answers.items() if name in read}
    given = {name: value for name, value in given.items() if name not in CHOICES or name in read}
    chosen = reading_of(reading, method, **answers)
    return OnlineTransferClassifier(method, reading=chosen if chosen.changes() else reading, **given)


def options_read(method: str, options: dict[str, Any]) -> frozenset[str]:
    """The names of options that a method reads beside these.

    >>> "lam" in options_read("oddm", {}), "lam" in options_read("hedgerow", {})
    (True, False)
    """
    return METHODS[method].options(Options(**{name: options[name] for name in CHOICES if name in options}))


def reading_answers(method: str, reading: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a reading says on every question it answers, with what the options say otherwise.

    >>> reading_answers("oddm", "table", {"lam": 0.5, "dim": 10})["lam"]
    0.5
    """
    given = {name: value for name, value in options.items() if name in READING_OPTIONS}
    answers = vars(reading_of(reading, method, **given))
    return {name: value for name, value in answers.items() if name in READING_OPTIONS}
