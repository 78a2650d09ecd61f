"""What is fitted on a task, and what is measured along its stream.

| measure  | of the probabilities p of an instance and its class y                 | best |
|----------|-----------------------------------------------------------------------|------|
| Brier    | sum_k (p_k - [k = y])^2, mean over the instances                       | 0    |
| log-loss | -ln max(p_y, 1e-6), mean over the instances                            | 0    |
| ECE      | |share right - mean confidence| of ten bins, mean over the instances   | 0    |
| recall   | share of a class that is recognised; in the table the mean over classes | 100 % |
| AUC      | P(p_k of an instance of class k > that of another); mean over classes  | 1    |
| AP       | average precision: the mean precision at each instance of class k, by p_k | 1 |
| found    | recall at a precision of 50 %: most of class k with p_k >= c where half of these are right | 100 % |
| top      | the share of class k among the 1 % of instances (10 at least) with the largest p_k | 100 % |
| faded    | share of mistakes at the end, a label .999 times as much as the next   | 0    |
| kappa    | (right - chance)/(1 - chance), chance by the frequencies of both       | 1    |
| temporal | 1 - mistakes/those of repeating the last label; below 0 that is enough | 1    |

The confidence of a prediction is its largest probability. A class that was not known when an instance was predicted has
probability 0; the floor of the log-loss keeps one such instance from drowning all others.

| measure  | of predictions p, intervals of half width h, and labels y that are numbers                 | best     |
|----------|--------------------------------------------------------------------------------------------|----------|
| RMSE     | root of the mean of (p - y)^2                                                                | 0        |
| MAE      | mean of abs(p - y)                                                                           | 0        |
| coverage | share of labels with abs(p - y) <= h                                                         | as asked |
| width    | mean of 2 h                                                                                  | 0        |
| Winkler  | mean of 2 h + 2/(1 - coverage) max(abs(p - y) - h, 0): a narrow interval that misses is punished | 0    |

Intervals of other learners follow our rule, a quantile tracker, on their own misses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from hedgerow.comparison.peers import SEED, FittedPeer
from hedgerow.comparison.results import Row
from hedgerow.comparison.runner import Unit, evenly, finished
from hedgerow.comparison.tasks import Task
from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.values import Codes, plain
from hedgerow.estimator import OnlineTransferClassifier, arguments_of
from hedgerow.findings import rare_below
from hedgerow.inputs import REGRESS, as_table
from hedgerow.kernels.regression import FADE, STEP
from hedgerow.methods import CHOICES, METHODS, Options
from hedgerow.regressor import OnlineTransferRegressor, numbers

COVERAGE = 0.9  # of the intervals of numbers
FIRST = 50  # labelled instances that count as the start of a stream
FADING = 0.999  # how much a mistake counts beside the next one
BINS = 10  # of confidence; of a probability in the log-loss
FLOOR = 1e-6
PRECISION = 0.5  # at which the recall of a class is told
TOP = 10  # instances at least, or 1 %, among which a class is looked for


# -- what is fitted ---------------------------------------------------------------------------------------------


def classifier(method: str, options: Mapping[str, Any]) -> OnlineTransferClassifier:
    """An unfitted classifier with those of the options that its method reads: they are the same for all methods."""
    read = METHODS[method].options(
        Options(**{name: options[name] for name in CHOICES if name in options})
    )
    own = {name: value for name, value in options.items() if name in read or name not in CHOICES}
    return OnlineTransferClassifier(**arguments_of(method, own))


@cache
def compile_loops(method: str) -> None:
    """Compile a method's loops, or read them from their cache, before a clock runs; once in each process."""
    X = np.random.default_rng(0).normal(size=(120, 6))
    y = np.arange(120) % 2
    there = np.repeat([0, 1, -1], 40)  # two sources and unlabelled rows
    classifier(method, {"random_state": 0}).fit(X, y, sample_domain=there).predict_then_learn(X, y)


def fit_classifier(unit: Unit, task: Task) -> OnlineTransferClassifier:
    """A method of ours."""
    model = classifier(unit.method, {**task.told(), **unit.options})
    return model.fit_domains(list(task.sources), task.unlabelled)


def fit_regressor(unit: Unit, task: Task) -> OnlineTransferRegressor:
    """Our learner for numbers."""
    table = unit.options.get("table", {} if task.has_columns_to_encode else None)
    model = OnlineTransferRegressor(coverage=COVERAGE, random_state=SEED, table=table)
    return model.fit_domains(list(task.sources), task.unlabelled)


def fit_peer(unit: Unit, task: Task) -> FittedPeer:
    """A learner of another package."""
    return FittedPeer(unit.method, task, unit.options.get("table"))


# -- what is measured -------------------------------------------------------------------------------------------


def measure(unit: Unit, task: Task, model: Any, order: int) -> Row:
    """The facts of a finished order: predictions against labels along the stream, and what was run."""
    whole = task.whole or task
    stream = task.arrived(order)
    at = np.array(evenly(len(stream)))
    shuffled = whole.arrivals is None
    facts: Row = {"options": {}}
    facts["sources"] = [source.name for source in task.sources]
    if isinstance(model, FittedPeer):
        facts["title"] = model.peer.title
    facts |= (
        _numbers(stream, model, whole) if task.kind == REGRESS else _classes(stream, model, whole)
    )
    return facts | {
        "reading": "general",
        "kind": task.kind,
        "instances": at,
        "shuffled": shuffled,
        "seeds": {"model": SEED, "order": order if shuffled else None},
        "domains": {
            "sources": {source.name: len(source) for source in whole.sources},
            "unlabelled": {} if whole.warmup is None else {whole.warmup.name: len(whole.warmup)},
            "stream": {whole.stream.name: len(whole.stream)},
            "columns": whole.stream.X.shape[1],
        },
    }


def _numbers(stream: Domain, model: Any, whole: Task) -> Row:
    """Predictions, half the width of intervals and labels; a mistake is a label outside of its interval."""
    y = numbers(np.asarray(stream.y), stream.name)
    known = ~np.isnan(y)
    if isinstance(model, FittedPeer):
        p, seconds = model.run(stream)
        labels = np.concatenate(
            [numbers(np.asarray(source.y), source.name) for source in whole.sources]
        )
        half = tracked(p, y, float(np.std(labels)), COVERAGE)
    else:
        began = time.perf_counter()
        trace = model.trace_then_learn(stream.X if model.table_ is None else as_table(stream), y)
        seconds = time.perf_counter() - began
        p = trace.predictions
        half = trace.half[:, 0]
    outside = known & ~(np.abs(p - y) <= half)
    shown = {"predictions": p[known], "half": half[known], "labels": y[known], "coverage": COVERAGE}
    return finished(outside, seconds, known) | shown


def tracked(p: Array, y: Array, deviation: float, coverage: float) -> Array:
    """Half the width of an interval before each label, by the regressor's tracker without a local scale."""
    q = top = 1.645 * deviation
    half = np.empty(len(p))
    for i, miss in enumerate(np.abs(y - p)):
        half[i] = q
        if miss == miss:
            top = max(FADE * top, miss)
            q = max(q + STEP * top * ((miss > q) - (1 - coverage)), 0.0)
    return half


def _classes(stream: Domain, model: Any, whole: Task) -> Row:
    """Mistakes, calibration, scores of each class, and which class was taken for which.

    Predictions are places in the table of the classes, -1 for none, which is a mistake.
    """
    table = Codes(whole.all_classes)
    codes = table.of(np.asarray(stream.y))
    known = codes >= 0
    own: Row = {}
    if isinstance(model, FittedPeer):
        p, seconds = model.run(stream)
        total = p.sum(axis=1, keepdims=True)
        predicted = np.where(total[:, 0] > 0, p.argmax(axis=1), -1)
        p = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / len(table.classes))
    else:
        X = stream.X if model.table_ is None else as_table(stream)
        began = time.perf_counter()
        explained = model.explain_then_learn(
            X, np.asarray(stream.y)
        )  # one block, so that no call is timed
        seconds = time.perf_counter() - began
        places = table.of(np.asarray(explained.classes))
        predicted = places[explained.codes]
        p = np.zeros((len(codes), len(table.classes)))
        p[:, places] = explained.probabilities
        own = {"options": {"dim": model.dim_}}
    wrong = (predicted != codes) & known
    first = np.flatnonzero(known)[:FIRST]
    pairs, counts = np.unique(
        np.column_stack([codes, predicted])[known], axis=0, return_counts=True
    )
    p = p[known]
    right = codes[known]
    usual = majority_wrong(right)
    return {
        **finished(wrong, seconds, known),
        **own,
        "first_mistakes": int(wrong[first].sum()),
        "first_n": len(first),
        "majority": int(usual.sum()),
        "majority_wrong": packed(usual),
        "last_label": last_label_mistakes(right),
        "brier": brier(p, right),
        "log_loss": log_loss(p, right),
        "bins": reliability(p, right),
        "by_class": by_class(p, right),
        "rare": rare_scores(p, right),
        "classes": [plain(label) for label in whole.all_classes],
        "confusion": np.column_stack([pairs, counts]),
        "wrong": packed(wrong[known]),
    }


# -- scores of predictions --------------------------------------------------------------------------------------


def majority_wrong(codes: Array) -> Array:
    """Where the rule is wrong that any learner has to beat: predict the most frequent class that came before.

    >>> majority_wrong(np.array([0, 1, 1, 1])).astype(int)
    array([1, 1, 1, 0])
    """
    counts: dict[int, int] = {}
    wrong = []
    for code in codes.tolist():
        wrong.append(max(counts, key=counts.__getitem__, default=-1) != code)
        counts[code] = counts.get(code, 0) + 1
    return np.array(wrong)


def last_label_mistakes(codes: Array) -> int:
    """Mistakes of the rule that any learner has to beat on rows in their own order: predict the last class again.

    >>> last_label_mistakes(np.array([0, 1, 1, 1]))
    2
    """
    return int((np.diff(codes) != 0).sum()) + 1


def faded(wrong: Array) -> float:
    """The share of mistakes at the end of a stream in which a label counts .999 times as much as the one after it.

    >>> round(faded(np.array([True] * 5000 + [False] * 2000)), 2)
    0.13
    """
    weights = FADING ** np.arange(len(wrong))[::-1]
    return float(weights @ wrong / weights.sum())


def kappa(square: Array) -> float:
    """Cohen's: how far the share that is right is above chance, of counts of classes (rows) by predictions.

    Predictions that no row is of stand in the last columns.

    >>> kappa(np.array([[8, 2], [2, 8]])), kappa(np.array([[10, 0], [10, 0]]))
    (0.6, 0.0)
    """
    total = square.sum()
    right = np.trace(square) / total
    chance = float(square.sum(axis=0)[: len(square)] @ square.sum(axis=1)) / total**2
    return round(float((right - chance) / (1 - chance)), 12) if chance < 1 else 0.0


def brier(p: Array, codes: Array) -> float:
    """The mean squared distance between the probabilities (a column a class) and what came.

    >>> brier(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]))
    0.25
    """
    return float(((p - np.eye(p.shape[1])[codes]) ** 2).sum(axis=1).mean())


def log_loss(p: Array, codes: Array) -> float:
    """The mean of -ln of the probability of the class that came, which counts as at least 1e-6.

    >>> round(log_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])), 3)
    7.254
    """
    return float(-np.log(np.maximum(p[np.arange(len(codes)), codes], FLOOR)).mean())


def reliability(p: Array, codes: Array) -> dict[str, list[float]]:
    """Predictions in bins of confidence: how many, the sum of their confidences, how many were right.

    >>> reliability(np.array([[0.95, 0.05], [0.45, 0.55]]), np.array([0, 0]))["right"]
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    confidence = p.max(axis=1)
    right = p.argmax(axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return {
        "count": np.bincount(bins, minlength=BINS).tolist(),
        "confidence": np.bincount(bins, weights=confidence, minlength=BINS).tolist(),
        "right": np.bincount(bins[right], minlength=BINS).tolist(),
    }


def calibration_error(bins: Mapping[str, Any]) -> float:
    """The expected calibration error of bins of confidence.

    >>> calibration_error(reliability(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])))
    0.25
    """
    return float(
        np.abs(np.subtract(bins["right"], bins["confidence"])).sum() / max(np.sum(bins["count"]), 1)
    )


def by_class(p: Array, codes: Array) -> dict[str, list[float | None]]:
    """Of each class that came: log-loss, and where others came: AUC and how well it is found among all others.

    >>> by_class(np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 1, 0]))["auc"]
    [1.0, 1.0]
    """
    from scipy.stats import rankdata

    found: dict[str, list[float | None]] = {
        name: [] for name in ("auc", "log_loss", "ap", "recall_at", "threshold", "top")
    }
    for k in range(p.shape[1]):
        own = codes == k
        n = int(own.sum())
        others = int((~own).sum())
        values: dict[str, float] = {}
        if n:
            values["log_loss"] = log_loss(p[own], codes[own])
        if n and others:
            above = rankdata(p[:, k])[own].sum() - n * (n + 1) / 2
            values |= {"auc": float(above / (n * others)), **finding(p[:, k], own)}
        for name, column in found.items():
            column.append(values.get(name))
    return found


def finding(scores: Array, own: Array, weights: Array | None = None) -> dict[str, float]:
    """How well scores find the instances of a class among all; `weights` say how often each instance counts.

    >>> finding(np.array([0.9, 0.8, 0.3]), np.array([True, False, True]))
    {'ap': 0.8333333333333333, 'recall_at': 1.0, 'threshold': 0.3, 'top': 0.6666666666666666}
    """
    order = np.argsort(-scores, kind="stable")
    count = np.ones(len(scores)) if weights is None else weights[order]
    last = np.append(np.diff(scores[order]) != 0, True)  # of instances with the same score
    found = np.cumsum(count * own[order])[last]
    precision = found / np.maximum(np.cumsum(count)[last], 1e-300)
    recall = found / max(found[-1], 1e-300)
    enough = np.flatnonzero(precision >= PRECISION)
    at = enough[-1] if len(enough) else None
    top = order[: max(len(order) // 100, TOP)]
    return {
        "ap": float((np.diff(recall, prepend=0.0) * precision).sum()),
        "recall_at": 0.0 if at is None else float(recall[at]),
        "threshold": 1.0 if at is None else float(scores[order][last][at]),
        "top": float(own[top].mean()),
    }


def rare_scores(p: Array, codes: Array) -> dict[str, Any] | None:
    """The rarest class, which instances are of it and their probabilities of it; None where none is rare."""
    counts = np.bincount(codes, minlength=p.shape[1])
    there = np.flatnonzero(counts)
    k = int(there[counts[there].argmin()])
    if counts[k] >= rare_below(len(there)) * len(codes):
        return None
    scores = p[:, k].astype("<f4").tobytes().hex()
    return {"class": k, "own": packed(codes == k), "scores": scores}


def packed(marks: Array) -> str:
    """Marks of instances, a bit each, as text."""
    return np.packbits(marks).tobytes().hex()


def unpacked(row: Mapping[Any, Any], name: str = "wrong") -> Array:
    """Which labelled instances of a row are marked: the mistakes.

    >>> unpacked({"wrong": "8180", "n": 9}).astype(int).tolist()
    [1, 0, 0, 0, 0, 0, 0, 1, 1]
    """
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(row[name]), dtype=np.uint8))
    return bits[: row["n"]].astype(bool)
