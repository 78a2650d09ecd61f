"""Keys that teach keys: what keys that come later gain, or lose, by those that came before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bench.measure import DATA
from bench.pages import Line, kept
from bench.record import Row
from hedgerow import Domain, OnlineTransferClassifier, OnlineTransferRegressor
from hedgerow.comparison.tables import Table
from hedgerow.fleet import Fleet

Array = np.ndarray[Any, Any]
EVERY = 8  # keys after which a base is fitted
EARLY = 20
SPOILED = 0.34  # chance that a key is spoiled
WORSE = 1.02


class Keyed(NamedTuple):
    """Where the keys of a data set are, how many rows they have, and how many of them are sources."""

    key: str
    left_out: tuple[str, ...]
    least: int
    most: int
    sources: int
    keys: int | None
    goal: str


DATA_SETS = {
    "bikeshare": Keyed("hr", (), 100, 365, 4, None, "<= -6"),
    "flights": Keyed("dest", ("domain", "distance"), 150, 300, 4, 30, "<= -2"),
    "loans": Keyed("state", ("earliest_credit_line",), 90, 300, 4, None, "<= -3"),
    "exam": Keyed("school", (), 20, 200, 5, None, "<= -1.5"),
    "diamonds": Keyed("key", (), 60, 200, 4, None, "<= 1"),
}


def frame_of(name: str) -> pd.DataFrame:
    """The rows with their key and, as `label`, what is predicted."""
    folder = Path(DATA or "")
    if name == "exam":
        with np.load(folder / "regression" / "exam.npz") as data:
            X = np.concatenate([data["0.Xs"], *(data[f"{k}.Xt"] for k in range(4))])
            y = np.concatenate([data["0.ys"], *(data[f"{k}.yt"] for k in range(4))])
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        return frame.assign(school=frame.x1, label=y)
    frame = pd.read_csv(folder / "tables" / f"{name}.csv.gz", dtype={"domain": str})
    if name == "diamonds":
        frame = frame.assign(key=frame.domain + frame.clarity, cut=frame.label)
        frame["label"] = np.log(frame.price)
        frame = frame.drop(columns=["domain", "clarity", "price"])
    return frame


def keys_of(name: str, seed: int) -> list[tuple[str, Array, Array]]:
    """The keys in an order drawn by the seed, each with its rows as numbers and its labels."""
    how = DATA_SETS[name]
    frame = frame_of(name).drop(columns=list(how.left_out), errors="ignore")
    rng = np.random.default_rng(seed)
    given = frame.drop(columns=[how.key, "label"])
    columns = pd.get_dummies(given, dtype=float)
    X = columns.fillna(columns.median()).to_numpy(float)
    labels = frame.label.to_numpy()
    keys = frame[how.key].astype(str).to_numpy()
    found = []
    for key in pd.unique(keys):
        at = np.flatnonzero(keys == key)
        if len(at) >= how.least:
            at = rng.permutation(at)[: how.most]
            found.append((str(key), X[at], labels[at]))
    return [found[i] for i in rng.permutation(len(found))][: how.keys]


def spoiled(X: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows that have nothing to do with others: columns exchanged, labels exchanged or mirrored."""
    X = X[:, rng.permutation(X.shape[1])]
    if y.dtype.kind == "f":
        return X, 2 * y.mean() - y + 3 * y.std()
    classes = np.unique(y)
    return X, classes[(np.searchsorted(classes, y) + 1) % len(classes)]


class Streamed(NamedTuple):
    """Of each key its losses, in order; seconds of fitting bases, and how many these were."""

    losses: list[Array]
    seconds: float
    bases: int


def streamed(
    sources: list[Domain], keys: list[tuple[str, Array, Array]], every: int | None
) -> Streamed:
    """All keys one after the other, each row predicted before its label; a base every so many keys."""
    numbers = keys[0][2].dtype.kind == "f"
    method: Any = OnlineTransferRegressor() if numbers else OnlineTransferClassifier()
    losses: list[Array] = []
    seconds = 0.0
    kept = None if every is None else 0
    with Fleet(sources, method, sync="normal", consolidate=kept) as fleet:
        for i, (key, X, y) in enumerate(keys):
            if every is not None and i and i % every == 0:
                began = time.perf_counter()
                fleet.consolidate()
                seconds += time.perf_counter() - began
            p = fleet.predict_then_learn([key] * len(y), X, y)
            losses.append((p - y) ** 2 if numbers else (p != y).astype(float))
        return Streamed(losses, seconds, fleet.stats()["bases"])


def change(now: list[Array], before: list[Array], numbers: bool) -> float:
    """Of the mistakes, or the root of the squared error, in %."""
    ratio = sum(each.sum() for each in now) / max(sum(each.sum() for each in before), 1e-12)
    return float(100 * ((np.sqrt(ratio) if numbers else ratio) - 1))


def join(
    quick: bool, data: str = ",".join(DATA_SETS), seeds: str = "2,3", every: int = EVERY
) -> Iterator[Row]:
    """Keys come one after the other, and after every eighth the fleet consolidates: change of the mistakes (numbers:
    RMSE) of keys after the first third against a fleet without, in %; also where a third of the keys are spoiled."""
    if quick:
        data = "bikeshare"
        seeds = "2"
    for name in data.split(","):
        for seed in map(int, seeds.split(",")):
            yield Row(
                {"data": name, "seed": seed}, _figures(name, seed, every, quick), _goals(name)
            )


def _goals(name: str) -> dict[str, str]:
    return {"change, %": DATA_SETS[name].goal, "a third spoiled, %": "<= 2"}


def _figures(name: str, seed: int, every: int, quick: bool) -> dict[str, float]:
    keys = keys_of(name, seed)[: 14 if quick else None]
    count = DATA_SETS[name].sources
    sources = [Domain(key, X, y) for key, X, y in keys[:count]]
    keys = [(key, X[:60], y[:60]) for key, X, y in keys[count:]] if quick else keys[count:]
    numbers = keys[0][2].dtype.kind == "f"
    rng = np.random.default_rng([seed, 1])
    bad = rng.random(len(keys)) < SPOILED
    mixed = [
        (key, *(spoiled(X, y, rng) if wrong else (X, y)))
        for (key, X, y), wrong in zip(keys, bad, strict=True)
    ]
    alone = streamed(sources, keys, None)
    shared = streamed(sources, keys, every)
    with_bad = streamed(sources, mixed, every)
    later = range(len(keys) // 3, len(keys))
    sound = [i for i in later if not bad[i]]
    each = [change([shared.losses[i]], [alone.losses[i]], numbers) for i in later]
    first = [[run.losses[i][:EARLY] for i in later] for run in (shared, alone)]
    return {
        "change, %": change(
            [shared.losses[i] for i in later], [alone.losses[i] for i in later], numbers
        ),
        "a third spoiled, %": change(
            [with_bad.losses[i] for i in sound], [alone.losses[i] for i in sound], numbers
        ),
        "first 20 rows, %": change(*first, numbers),
        "best key, %": min(each),
        "median key, %": float(np.median(each)),
        "worst key, %": max(each),
        "worse": sum(value > 100 * (WORSE - 1) for value in each),
        "later keys": len(each),
        "bases": shared.bases,
        "s a base": shared.seconds / max(shared.bases, 1),
    }


def join_page(lines: list[Line]) -> Iterator[str]:
    """A line a data set: the mean over seeds, and the smallest and largest where it matters."""
    rows = []
    for name, how in DATA_SETS.items():
        own = [line["figures"] for line in lines if line["setting"]["data"] == name]
        if not own:
            continue
        change, bad, first = (
            [figures[key] for figures in own]
            for key in ("change, %", "a third spoiled, %", "first 20 rows, %")
        )
        each = [figures["worse"] / figures["later keys"] for figures in own]
        rows.append(
            [
                f"{name} ({how.goal})",
                str(len(own)),
                marked(float(np.mean(change)), how.goal),
                f"{min(change):+.1f}..{max(change):+.1f}",
                marked(float(np.mean(bad)), "<= 2"),
                f"{np.mean(first):+.1f}",
                f"{np.median([figures['median key, %'] for figures in own]):+.1f}",
                f"{max(figures['worst key, %'] for figures in own):+.0f}",
                f"{np.mean(each):.0%}",
            ]
        )
    heads = ["data", "seeds", "change", "range", "spoiled"]
    heads += ["early", "median key", "worst key", "worse keys"]
    yield ""
    yield from Table("", "", heads, rows).markdown().splitlines()


def marked(value: float, goal: str) -> str:
    """Bold where it misses its goal."""
    return f"{value:+.1f}" if kept(value, goal) else f"**{value:+.1f}**"
