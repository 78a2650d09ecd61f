"""Where benchmarks take their tasks from: the one place that knows the packages of experiments.

A task is "data/target" of a data set that `hedgerow.load` knows, all other domains its sources; the paper's nine can be
named by their target alone. `watch/3` is wearer 3 of the bundled watch data set of seglearn (exercises of the shoulder
with a watch on: three axes of acceleration, three of rotation, 50 samples a second, 7 exercises, 10 wearers), each
wearer a domain. A series is cut into windows of 100 samples that do not overlap; a window is a row of 30 features:
mean, standard deviation, least, largest, and mean absolute step of each of the six channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.measure import DATA
from hedgerow import Domain, split
from hedgerow.comparison.measure import tracked
from hedgerow.comparison.tasks import order_of
from reproduction import paper
from reproduction.paper import FAMILY_SETTINGS, family_of
from reproduction.paper import TASKS as TITLES
from reproduction.tasks import WARMUP, Task, checksum, classifier, fit_in_order, task_of

__all__ = [
    "FAMILY",
    "FAMILY_SETTINGS",
    "NINE",
    "TITLES",
    "Task",
    "classifier",
    "fit_in_order",
    "of_paper",
    "order_of",
    "prepare",
    "tracked",
]

NINE = tuple(TITLES)
FAMILY = {name: family_of(name) for name in NINE}
WINDOW = 100


def prepare(task: str, seed: int) -> Task:
    """Sources, an order of all their rows, unlabelled rows and the stream of one split."""
    if task.startswith("watch/"):
        return _watch(task.split("/")[1], seed)
    data, target = (FAMILY[task], task) if task in FAMILY else task.split("/")
    return task_of(data, target, seed, data_dir=DATA)


def of_paper(task: str, reading: str) -> tuple[Task, dict[str, Any]]:
    """The first split of one of the nine as the paper's experiments have it, and the paper's settings for it."""
    return paper.prepare(task, 0, reading, DATA), FAMILY_SETTINGS[FAMILY[task]]


def _watch(wearer: str, seed: int) -> Task:
    from seglearn.datasets import load_watch

    data = load_watch()
    rows: dict[str, list[np.ndarray]] = {}
    labels: dict[str, list[str]] = {}
    for series, exercise, name in zip(data["X"], data["y"], data["subject"], strict=True):
        windows = series[: len(series) // WINDOW * WINDOW].reshape(-1, WINDOW, series.shape[1])
        steps = np.abs(np.diff(windows, axis=1)).mean(axis=1)
        parts = (
            windows.mean(axis=1),
            windows.std(axis=1),
            windows.min(axis=1),
            windows.max(axis=1),
            steps,
        )
        rows.setdefault(str(name), []).append(np.hstack(parts))
        labels.setdefault(str(name), []).extend([data["y_labels"][exercise]] * len(windows))
    domains = {name: Domain(name, np.vstack(parts), labels[name]) for name, parts in rows.items()}
    warmup, stream = split(domains[wearer], WARMUP, seed)
    rng = np.random.default_rng([seed, 7])
    sources = tuple(
        domain.rows(rng.permutation(len(domain)))
        for name, domain in domains.items()
        if name != wearer
    )
    together = rng.permutation(sum(map(len, sources)))
    return Task(wearer, sources, warmup, stream, checksum(domains), together=together)
