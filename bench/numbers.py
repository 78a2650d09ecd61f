"""Twelve real regression tasks for `OnlineTransferRegressor` and for what people use instead."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any, NamedTuple

import numpy as np

from bench.measure import DATA
from bench.pages import Line, best_variants, summary
from bench.record import Row
from bench.tables import made, measured
from bench.tasks import tracked
from hedgerow import OnlineTransferRegressor
from hedgerow.comparison.tables import Table

REFIT = 50
EARLY = 50
COVERAGE = 0.9
Array = np.ndarray[Any, Any]


class Task(NamedTuple):
    """Rows, numbers and domain of the sources, and the stream."""

    X: Array
    y: Array
    domain: Array
    stream: Array
    labels: Array


def tasks_of(name: str) -> list[tuple[str, Task]]:
    """The targets of a task."""
    folder = Path(DATA or "") / "regression"
    meta = json.loads((folder / "meta.json").read_text())
    with np.load(folder / f"{name}.npz") as data:
        return [
            (
                str(target["target"]),
                Task(
                    *(np.asarray(data[f"{k}.{a}"], float) for a in ("Xs", "ys", "ds", "Xt", "yt"))
                ),
            )
            for k, target in enumerate(meta[name]["targets"])
        ]


def names() -> list[str]:
    """All tasks."""
    return list(json.loads((Path(DATA or "") / "regression" / "meta.json").read_text()))


# -- who predicts: a number for each row before its label, and half the width of a 90 % interval, or None --------------

Run = Callable[[Task], tuple[Array, Array | None]]


def own(task: Task) -> tuple[Array, Array | None]:
    """Ours, in one call."""
    reg = OnlineTransferRegressor(coverage=COVERAGE).fit(
        task.X, task.y, sample_domain=task.domain.astype(int)
    )
    trace = reg.trace_then_learn(task.stream, task.labels)
    return trace.predictions, trace.half[:, 0]


def refitted(make: Callable[[], Any], every: int = REFIT, domain: bool = False) -> Run:
    """A batch learner, fitted on the sources and, every so many labels, on the labels of the target too.

    domain: with the number of the domain as one-hot columns.
    """

    def columns(X: Array, numbers: Array, most: int) -> Array:
        return np.hstack([X, numbers[:, None] == np.arange(most)]) if domain else X

    def run(task: Task) -> tuple[Array, Array | None]:
        n = len(task.labels)
        S = int(task.domain.max()) + 2
        rows = columns(task.stream, np.full(n, S - 1), S)
        X = columns(task.X, task.domain, S)
        p = np.empty(n)
        for begin in range(0, n, every or n):
            end = begin + (every or n)
            model = make().fit(
                np.vstack([X, rows[:begin]]), np.concatenate([task.y, task.labels[:begin]])
            )
            p[begin:end] = model.predict(rows[begin:end])
        return p, None

    return run


def river(make: Callable[[], Any], pretrained: bool = True) -> Run:
    """A model of river behind its running scaler, one pass over the sources, then the stream."""

    def run(task: Task) -> tuple[Array, Array | None]:
        from river import compose, preprocessing

        model = compose.Pipeline(preprocessing.StandardScaler(), make())
        centre = task.y.mean()
        scale = task.y.std()
        for t in np.random.default_rng(0).permutation(len(task.y)) if pretrained else ():
            model.learn_one(dict(enumerate(task.X[t].tolist())), (task.y[t] - centre) / scale)
        p = np.empty(len(task.labels))
        for t, (x, y) in enumerate(zip(task.stream.tolist(), task.labels.tolist(), strict=True)):
            row = dict(enumerate(x))
            p[t] = centre + scale * model.predict_one(row)
            model.learn_one(row, (y - centre) / scale)
        return p, None

    return run


def vowpal(task: Task) -> tuple[Array, Array | None]:
    """Vowpal Wabbit with quadratic features, five passes over the sources, then the stream."""
    from vowpalwabbit import pyvw

    model = pyvw.Workspace("--quiet -q ::")
    mean = task.X.mean(axis=0)
    sd = task.X.std(axis=0) + 1e-9
    centre = task.y.mean()
    scale = task.y.std() or 1.0

    def line(x: Array, y: float | None = None) -> str:
        cells = " ".join(f"f{j}:{v:.6g}" for j, v in enumerate(np.clip((x - mean) / sd, -8, 8)))
        return f"{'' if y is None else f'{(y - centre) / scale:.6g}'} |a {cells}"

    rng = np.random.default_rng(0)
    for _ in range(5):
        for t in rng.permutation(len(task.y)):
            model.learn(line(task.X[t], task.y[t]))
    p = np.empty(len(task.labels))
    for t, (x, y) in enumerate(zip(task.stream, task.labels, strict=True)):
        p[t] = centre + scale * model.predict(line(x))
        model.learn(line(x, y))
    return p, None


def _ridge() -> Any:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), RidgeCV(10.0 ** np.arange(-3, 4)))


HGB = made("sklearn.ensemble.HistGradientBoostingRegressor", random_state=0)
LIGHTGBM = made("lightgbm.LGBMRegressor", n_jobs=1, verbose=-1, random_state=0)
LINEAR = made("river.linear_model.LinearRegression")
RUNS: dict[str, tuple[str, Run]] = {  # name: the package that it needs, and how it runs
    "hedgerow": ("hedgerow", own),
    "HGB, sources only": ("sklearn", refitted(HGB, every=0)),
    "HGB": ("sklearn", refitted(HGB)),
    "HGB + domain": ("sklearn", refitted(HGB, domain=True)),
    "Ridge": ("sklearn", refitted(_ridge)),
    "Ridge + domain": ("sklearn", refitted(_ridge, domain=True)),
    "LightGBM": ("lightgbm", refitted(LIGHTGBM)),
    "LightGBM + domain": ("lightgbm", refitted(LIGHTGBM, domain=True)),
    "VW": ("vowpalwabbit", vowpal),
    "river linear": ("river", river(LINEAR)),
    "river linear, target only": ("river", river(LINEAR, False)),
    "river Bayesian": ("river", river(made("river.linear_model.BayesianLinearRegression"))),
    "river ARF": ("river", river(made("river.forest.ARFRegressor", seed=1))),
    "river KNN": ("river", river(made("river.neighbors.KNNRegressor"))),
    "river HATR": ("river", river(made("river.tree.HoeffdingAdaptiveTreeRegressor", seed=1))),
}


def numbers(quick: bool, tasks: str = "", peers: str = ";".join(RUNS)) -> Iterator[Row]:
    """Sources in advance, then a stream, test-then-train. RMSE and MAE over those of the target's running mean, which
    starts at the sources' mean. Batch learners are fitted again every 50 labels on sources and target ("+ domain": with
    the domain as columns); models of river and VW have seen the sources once, or in five passes, before the stream.
    River's linear models diverge on two tasks (epa, hotel). Intervals of peers follow our rule (a quantile tracker) on
    their own misses. Our method was chosen on these tasks: its lead is no held-out figure."""
    if quick:
        tasks = "airfare"
        peers = "hedgerow;Ridge"
    chosen = tasks.split(",") if tasks else names()
    streams = (
        ({"task": name, "target": target}, task)
        for name in chosen
        for target, task in tasks_of(name)
    )
    yield from measured(streams, RUNS, peers, _figures)


def _figures(run: Run, task: Task) -> dict[str, float]:
    began = time.perf_counter()
    p, half = run(task)
    seconds = time.perf_counter() - began
    y = task.labels
    n = len(task.labels)
    p = np.nan_to_num(p, nan=task.y.mean(), posinf=1e12, neginf=-1e12)
    half = tracked(p, y, float(task.y.std()), COVERAGE) if half is None else half
    mean = np.concatenate([[task.y.mean()], np.cumsum(y)[:-1] / np.arange(1, n)])
    beyond = np.maximum(np.abs(y - p) - half, 0)
    return {
        "RMSE": _ratio((p - y) ** 2, (mean - y) ** 2),
        "MAE": float(np.abs(p - y).mean() / np.abs(mean - y).mean()),
        "first 50": _ratio((p - y)[:EARLY] ** 2, (mean - y)[:EARLY] ** 2),
        "coverage": float((np.abs(y - p) <= half).mean()),
        "width": float(2 * half.mean() / y.std()),
        "Winkler": float((2 * half + 2 / (1 - COVERAGE) * beyond).mean() / y.std()),
        "rows": float(n),
        "ms a row": 1e3 * seconds / n,
    }


def _ratio(a: Array, b: Array) -> float:
    return float(np.sqrt(a.mean() / b.mean()))


def numbers_page(lines: list[Line]) -> Iterator[str]:
    """Means over the targets of a task, then over tasks; and our coverage by stream."""
    rmse: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        by = rmse.setdefault(line["setting"]["task"], {})
        by.setdefault(line["setting"]["who"], []).append(line["figures"]["RMSE"])
    shown = []
    for task, by in rmse.items():
        others = {who: mean(values) for who, values in by.items() if who != "hedgerow"}
        best = min(others, key=others.__getitem__, default="")
        ours = [f"{mean(by['hedgerow']):.3f}"] if "hedgerow" in by else [""]
        shown.append([task, *ours, *([f"{others[best]:.3f}", best] if best else ["", ""])])
    yield from [
        "",
        "RMSE of ours and of the best of the others on each task, chosen with hindsight:",
        "",
    ]
    yield from Table("", "", ["task", "hedgerow", "best", "who"], shown).markdown().splitlines()
    yield from ["", "Geometric means over the tasks, of the best variant of each:", ""]
    more = ("RMSE", "MAE", "first 50", "width", "Winkler", "coverage", "ms a row")
    best = best_variants(lines, "RMSE")
    yield from summary(best, "who", "task", dict.fromkeys(more, 3), geometric_mean)
    ours = [x["figures"] for x in lines if x["setting"]["who"] == "hedgerow"]
    if ours:
        rows = np.array([x["rows"] for x in ours])
        shares = np.array([x["coverage"] for x in ours])
        long = shares[rows >= 500]
        yield from [
            "",
            f"Coverage of our 90 % intervals: {(rows * shares).sum() / rows.sum():.3f} of all rows; streams of 500 rows"
            f" and more: {long.min():.3f} to {long.max():.3f}.",
        ]
