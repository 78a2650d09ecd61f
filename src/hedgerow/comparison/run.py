"""One unit of a comparison, order by order: fit, predict and learn the stream, one row a finished order."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.comparison.measures import Predicted, measured
from hedgerow.comparison.peers import PEERS, FittedPeer
from hedgerow.comparison.stored_task import read_task
from hedgerow.core.arrays import Array, stack_rows
from hedgerow.core.domains import Domain
from hedgerow.core.labels import Codes, is_missing, plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.estimator.inputs import all_classes as classes_of_all
from hedgerow.estimator.table_rows import as_table, need_encoder
from hedgerow.evaluate.folds import Row
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.preparation import order_of
from hedgerow.experiment.prequential import evenly, prequential
from hedgerow.experiment.rows import finished_row
from hedgerow.experiment.trials import TransferTask, compile_loops

READING = "general"  # what a user gets who sets nothing
SEED = 0
COMPARED, LEFT_OUT = "compare", "without"  # groups of rows: all sources, and one left out


@dataclass(frozen=True)
class Unit:
    """A method on the task of a folder, perhaps without one source, in time or in shuffled orders."""

    folder: str
    checksum: str
    task: str
    method: str
    orders: int
    shuffled: bool = False
    without: str = ""

    def __str__(self) -> str:
        return f"{self.method} on {self.task}" + (f" without {self.without}" if self.without else "")

    def key(self, trial: int) -> tuple[str, str, str, str, int, int]:
        """What makes a row of the results unique."""
        return (LEFT_OUT if self.without else COMPARED), self.task, self.method, self.without, 0, trial


def run_unit(unit: Unit, trials: list[int], cache: AlignmentCache, data_dir: str | None) -> Iterator[dict[str, Any]]:
    """The rows of a unit for these orders; `data_dir` is not looked at, the task is in the unit's folder."""
    task = read_task(unit.folder, unit.checksum)
    table = Codes(all_classes(task))
    if unit.method not in PEERS:
        compile_loops(unit.method)
    began = time.perf_counter()
    if unit.method in PEERS:
        task = encoded(task)
        codes = np.concatenate([table.of(np.asarray(source.y)) for source in task.sources])
        peer = FittedPeer.of(unit.method, stack_rows([s.X for s in task.sources]), codes, len(table.classes))
        offline = time.perf_counter() - began
        yield from (_peer_row(unit, trial, task, copy.deepcopy(peer), table, offline) for trial in trials)
    else:
        clf = fit(task, unit.method, unit.without, cache)
        offline = time.perf_counter() - began
        yield from (_row(unit, trial, task, clf, table, offline) for trial in trials)


def all_classes(task: TransferTask) -> Array:
    """Every label of the sources and of the stream, sorted: the table that predictions are counted in."""
    labels = [np.asarray(domain.y) for domain in (*task.sources, task.stream)]
    return classes_of_all([y[~is_missing(y)] for y in labels])


def fit(
    task: TransferTask, method: str, without: str = "", cache: AlignmentCache | None = None
) -> OnlineTransferClassifier:
    """The classifier of a method, fitted on all sources but one; without any it is told the classes."""
    sources = [source for source in task.sources if source.name != without]
    known = None if sources else all_classes(task).tolist()
    options: dict[str, Any] = {"classes": known, "random_state": SEED}
    given = [*sources, *([] if task.warmup is None else [task.warmup])]
    if need_encoder(_domains(task)) and not need_encoder(given):
        options["table"] = {}  # the stream alone has gaps or other columns: whoever learns it needs an encoder
    more: dict[str, Any] = {} if cache is None else {"align": cache}
    return classifier(method, READING, **options).fit_domains(sources, task.warmup, **more)


def encoded(task: TransferTask) -> TransferTask:
    """The task in numbers, gaps as NaN, by the encoder that our methods get; as it is where they need none."""
    encoder = fit(task, "pa").table_ if need_encoder(_domains(task)) else None
    if encoder is None:
        return task

    def numbers(d: Domain) -> Domain:
        return d.of_numbers(encoder.encode(as_table(d), where=d.name), encoder.feature_names)

    warmup = None if task.warmup is None else numbers(task.warmup)
    return replace(task, sources=tuple(map(numbers, task.sources)), warmup=warmup, stream=numbers(task.stream))


def _domains(task: TransferTask) -> list[Domain]:
    return [*task.sources, task.stream, *([] if task.warmup is None else [task.warmup])]


def stream_in(task: TransferTask, trial: int, shuffled: bool, by_name: bool = False) -> tuple[Any, Array]:
    """Rows and labels of the stream: in their order in time, or in the trial's own order; `by_name` as a table."""
    X, y = as_table(task.stream) if by_name else task.stream.X, np.asarray(task.stream.y)
    if not shuffled:
        return X, y
    order = order_of(trial, len(task.stream))
    return X[order], y[order]


def _row(
    unit: Unit, trial: int, task: TransferTask, fitted: OnlineTransferClassifier, table: Codes, offline: float
) -> Row:
    X, y = stream_in(task, trial, unit.shuffled, by_name=fitted.table_ is not None)
    clf = copy.deepcopy(fitted)
    began = time.perf_counter()
    found = clf.explain_then_learn(X, y)
    seconds = time.perf_counter() - began
    place = table.of(np.asarray(found.classes))
    p = np.zeros((len(y), len(table.classes)))
    p[:, place] = found.probabilities
    weights = found.weights[np.array(evenly(len(y))) - 1]
    follow = trial == 0 and not unit.without
    return finished_row(
        unit.key(trial),
        clf,
        **_shared(unit, trial, Predicted(place[found.codes], p, table.of(y), seconds), table, offline),
        experts=clf.expert_names_,
        weights=weights,
        sources=clf.source_names_,
        discrepancy=_distances(copy.deepcopy(fitted), X, y) if follow else [],
        options={"dim": clf.dim_},
        notes=[] if clf.table_ is None else clf.table_.notes(),
    )


def _peer_row(unit: Unit, trial: int, task: TransferTask, peer: FittedPeer, table: Codes, offline: float) -> Row:
    X, y = stream_in(task, trial, unit.shuffled)
    found = peer.run(X, table.of(y), len(table.classes))
    own = {"title": PEERS[unit.method].title, "experts": [], "weights": [], "sources": [s.name for s in task.sources]}
    return finished_row(
        unit.key(trial), None, **own, discrepancy=[], options={}, **_shared(unit, trial, found, table, offline)
    )


def _shared(unit: Unit, trial: int, found: Predicted, table: Codes, offline: float) -> Row:
    return {
        **measured(found, [plain(label) for label in table.classes]),
        "order": trial,
        "shuffled": unit.shuffled,
        "seconds_offline": offline,
        "reading": READING,
        "seeds": {"model": SEED, "order": trial if unit.shuffled else None},
        "data": unit.checksum,
    }


def _distances(clf: OnlineTransferClassifier, X: Any, y: Array) -> list[list[float]]:
    """The discrepancy of each source at the checkpoints; empty where the method has none."""
    if not np.isfinite(clf.discrepancy_).all() or not len(clf.discrepancy_):
        return []
    return [clf.discrepancy_.tolist() for _ in prequential(clf, X, y, evenly(len(y)))]
