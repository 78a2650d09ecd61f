"""How the time grows with the features, the dimension, the sources, the classes and the length of the stream."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from speed import Row, Size, fitted, row, side_by_side, slope

MIDDLE = Size("middle", m=1024, K=20, d=100, n=3, every=50, stream=1000)
SWEEPS: dict[str, tuple[int, ...]] = {
    "m": (1024, 2048, 4096, 8192),
    "d": (50, 100, 200, 400),
    "n": (2, 4, 8, 16),
    "K": (20, 40, 80, 160),
}
NAMES = {"m": "features m", "d": "dimension d", "n": "sources n", "K": "classes K"}
LENGTHS = (2000, 4000, 8000, 16000)
REPEATS = 5


def measure() -> Iterator[Row]:
    """One sweep a parameter, all others as in the middle."""
    for name, values in SWEEPS.items():
        tasks = [task(MIDDLE._replace(**{name: value})) for value in values]
        times = [seconds / MIDDLE.stream for seconds in replay_seconds(tasks)]
        yield grown(f"time an instance over the {NAMES[name]}", NAMES[name], "seconds an instance", values, times)
    clf, X, y = fitted(MIDDLE._replace(stream=LENGTHS[-1]))
    times = replay_seconds([(clf, X[:length], y[:length]) for length in LENGTHS])
    yield grown("total time over the length of the stream", "instances", "seconds", LENGTHS, times)


def grown(what: str, x_label: str, y_label: str, x: Any, y: list[float]) -> Row:
    """A slope in log-log with its curve."""
    return row(
        f"growth of {what}, ODDM replay",
        "log-log slope <= 1.1",
        [("slope", "<=", 1.1)],
        {str(value): seconds for value, seconds in zip(x, y, strict=True)},
        unit="",
        slope=slope(x, y),
        curve={"x": list(x), "y": y, "x_label": x_label, "y_label": y_label, "name": "ODDM, replay"},
    )


def task(size: Size) -> tuple[Any, Any, Any]:
    """A fitted model and its stream."""
    return fitted(size, rows=max(400, size.d, 2 * size.K))


def replay_seconds(tasks: list[tuple[Any, Any, Any]]) -> list[float]:
    """Median times of `predict_then_learn` from the same start, the tasks in turn; the offline stage is left out."""
    models = {i: [copy.deepcopy(clf) for _ in range(REPEATS + 1)] for i, (clf, _, _) in enumerate(tasks)}
    works = {
        str(i): lambda i=i, X=X, y=y: models[i].pop().predict_then_learn(X, y) for i, (_, X, y) in enumerate(tasks)
    }
    return list(side_by_side(works, REPEATS).values())
