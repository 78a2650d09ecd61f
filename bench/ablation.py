"""Our own learner with parts left out: the heads' scores are recorded once, and mixtures of some of them replayed.

Heads do not read the mixture, so one run of the learner serves every composition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

from bench import tables
from bench.pages import Line
from bench.record import Row
from bench.tasks import prepare
from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.comparison.tables import Table
from hedgerow.kernels.ridge import KEEP, LEAST
from hedgerow.ridge.plain import SCALES, PlainLearner, centred, newton
from reproduction.tasks import drifting, fit_in_order, task_of

SETS = ("digits", "digits that change", "deep features", "reviews", "bikeshare", "hotel")
DIGITS = ("tilted", "faded", "thin")  # `shifted` was looked at when parts were chosen
REVIEWS = ("books", "kitchen")
MEMBERS = ("qbar", "frequencies", "remembers", "forgets")


class Recorded(NamedTuple):
    """One run: scores of the heads before each label (T x heads x K), their names, and the labels."""

    F: np.ndarray
    heads: list[str]
    y: np.ndarray


class Mixed(NamedTuple):
    """What of the mixture is replayed: heads whose name begins with none of `without`, temperatures, members."""

    without: Sequence[str] = ()
    scales: Sequence[float] = tuple(SCALES)
    members: Sequence[str] = MEMBERS


WHOLE = "nothing"
PARTS = {
    WHOLE: Mixed(),
    "kernel": Mixed(("kernel",)),
    "white": Mixed(("white",)),
    "free": Mixed(("free",)),
    "fading": Mixed(("fading",)),
    "local heads": Mixed(("near input",)),
    "trees": Mixed(("level", "boost", "leaves")),
    "last label": Mixed(("last label",)),
    "temperatures but 4": Mixed(scales=(4.0,)),
    "class frequencies as a member": Mixed(members=("qbar", "remembers", "forgets")),
    "the stack that remembers": Mixed(members=("qbar", "frequencies", "forgets")),
    "the stack that forgets": Mixed(members=("qbar", "frequencies", "remembers")),
    "both stacks": Mixed(members=("qbar", "frequencies")),
}


def ablation(quick: bool, sets: str = ",".join(SETS), seeds: str = "30,31,32") -> Iterator[Row]:
    """Points of mistakes that the default learner makes more without one of its parts. The scores of all heads are
    recorded in one run (plain NumPy form), and the mixture is replayed without some of them; what changes the heads
    themselves (their constants, the pool) is not in the table. Draws of rows that no choice was made on; on the deep
    features (GoogLeNet for Office, targets Amazon and Webcam) none was made at all. Mean and deviation of the paired
    differences over targets and draws."""
    if quick:
        sets = "digits"
        seeds = "30"
    for name in [each.strip() for each in sets.split(",")]:
        wrong: dict[str, list[float]] = defaultdict(list)
        for run in runs_of(name):
            for seed in seeds.split(","):
                recorded = run(int(seed))
                for part, mixed in PARTS.items():
                    missed = replay(recorded, mixed) != recorded.y
                    wrong[part].append(100 * float(missed.mean()))
        for part, mistakes in wrong.items():
            more = [a - b for a, b in zip(mistakes, wrong[WHOLE], strict=True)]
            figures = {"mistakes %": mean(mistakes), "points more": mean(more), "runs": len(more)}
            spread = {"deviation": stdev(more)} if len(more) > 1 else {}
            yield Row({"set": name, "without": part}, figures | spread)


def runs_of(name: str) -> list[Callable[[int], Recorded]]:
    """What records a run of a seed, for each target of a set."""
    if name in tables.TASKS:
        return [partial(record_table, name)]
    if name == "digits that change":
        return [partial(record_drift, target) for target in DIGITS[:2]]
    targets = {
        "digits": [f"digits/{target}" for target in DIGITS],
        "deep features": ["office-googlenet/amazon", "office-googlenet/webcam"],
        "reviews": [f"amazon-reviews/{target}" for target in REVIEWS],
    }[name]
    return [partial(record_task, target) for target in targets]


def record_drift(target: str, seed: int) -> Recorded:
    """A run on digits whose style changes in the middle of the stream."""
    return record_arrays(drifting(task_of("digits", target, seed), "abrupt"))


def record_task(target: str, seed: int) -> Recorded:
    """A run on a target of a data set."""
    return record_arrays(prepare(target, seed))


def record_arrays(task: Any) -> Recorded:
    """A run of the default learner on a task of arrays."""
    clf = fit_in_order(OnlineTransferClassifier(), task)
    y = np.searchsorted(clf.classes_, np.asarray(task.stream.y))
    return record(clf, np.asarray(task.stream.X, float), y)


def record_table(name: str, seed: int) -> Recorded:
    """A run on a table."""
    task = tables.task_of(name, seed)
    sources = [Domain(*source) for source in task.sources]
    clf = OnlineTransferClassifier().fit_domains(sources, Domain("target", task.warmup))
    known = np.isin(task.labels, clf.classes_)
    codes = np.searchsorted(clf.classes_, task.labels[known])
    return record(clf, clf.as_matrix(task.stream[known]), codes)


def record(clf: OnlineTransferClassifier, X: np.ndarray, y: np.ndarray) -> Recorded:
    """The heads' scores along a stream."""
    learner = clf.learner_
    plain = PlainLearner(learner)
    F = []
    for x, label in zip(X, y, strict=True):
        scores, z = plain.scores(x, int(label))
        F.append(scores)
        plain.learn(z, int(label))
        plain.mix["counts"][label] += 1  # which the mixture does, and the last label's head reads
    return Recorded(np.array(F), list(learner.plan.heads), y)


def replay(run: Recorded, part: Mixed) -> np.ndarray:
    """The predictions of a mixture of some heads, each made before its label."""
    F = run.F[:, [not head.startswith(tuple(part.without)) for head in run.heads]]
    scales = np.array(part.scales)
    _, H, K = F.shape
    a = np.array([[*np.zeros(H), 1.0, 0.0], [*np.full(H, 4.0 / H), 0.5, 0.0]])
    curvature = [3.0 * np.eye(H + 2) for _ in a]
    among = [MEMBERS.index(name) for name in part.members]
    loss = np.zeros(H * len(scales) + 1)
    losses = np.zeros(len(among))
    counts = np.ones(K)
    predictions = np.empty(len(F), np.int64)
    for t, (scores, label) in enumerate(zip(F, run.y, strict=True)):
        log_pi = np.log(counts / counts.sum())
        experts = log_softmax(scores[:, None] * scales[:, None], axis=2).reshape(-1, K)
        experts = np.vstack([experts, log_pi])
        log_q = np.log(softmax(-loss) @ np.exp(experts) + LEAST)
        X = np.vstack([scores, centred(log_q), centred(log_pi)])
        stacks = log_softmax(a @ X, axis=1)
        members = np.vstack([log_softmax(log_q), log_pi, stacks])
        predictions[t] = (softmax(-losses) @ np.exp(members[among])).argmax()
        loss -= experts[:, label]
        losses -= members[among, label]
        for weights, matrix, keep, log_p in zip(a, curvature, KEEP, stacks, strict=True):
            newton(weights, matrix, X, np.exp(log_p), int(label), keep)
        counts[label] += 1
    return predictions


def ablation_page(lines: list[Line]) -> Iterator[str]:
    """Mistakes of the whole, and below what each part is worth, a column a set."""
    figures = {(line["setting"]["without"], line["setting"]["set"]): line["figures"] for line in lines}  # fmt: skip
    sets = list(dict.fromkeys(line["setting"]["set"] for line in lines))
    whole = [f"{figures[WHOLE, name]['mistakes %']:.2f} %" for name in sets]
    worth = ([part, *(points(figures[part, name]) for name in sets)] for part in list(PARTS)[1:])
    rows = [[WHOLE, *whole], *worth]
    yield from ["", *Table("", "", ["without", *sets], rows).markdown().splitlines()]


def points(figures: dict[str, float]) -> str:
    """A difference with its deviation.

    >>> points({"points more": 0.25, "deviation": 0.5}), points({"points more": 0.0})
    ('+0.25±0.50', '0')
    """
    if not figures["points more"] and not figures.get("deviation"):
        return "0"
    spread = f"±{figures['deviation']:.2f}" if "deviation" in figures else ""
    return f"{figures['points more']:+.2f}{spread}"
