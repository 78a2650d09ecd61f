"""A fleet against as many models of their own: bytes a key, mixed batches, many keys in bounded memory, tables."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.measure import child, one_by_one, resident
from bench.record import Row
from bench.sides import HERE, checkout
from hedgerow import Domain, OnlineTransferClassifier, load, split
from hedgerow.fleet import Base, Fleet

LABELS = 20
BATCH = 1000
CLASSES = 10
ROWS = 4000
BOTH = "hedgerow,hedgerow-linear"


def _numbers(features: int, rng: np.random.Generator) -> tuple[list[Domain], Domain]:
    """Three sources of 500 rows and ten classes, and a stream of a shifted target."""
    centres = rng.normal(size=(CLASSES, features)) * min(1.0, np.sqrt(60 / features))

    def domain(name: str, n: int) -> Domain:
        y = rng.integers(0, CLASSES, n)
        return Domain(
            name, centres[y] + rng.normal(size=(n, features)) + 0.5 * rng.normal(size=features), y
        )

    return [domain(f"source {i}", 500) for i in range(3)], domain("target", ROWS)


def _tables(rng: np.random.Generator) -> tuple[list[Domain], Domain]:
    """The same with six numbers (two with gaps), two categories and a date."""
    import pandas as pd

    def domain(name: str, rows: int, shift: float) -> Domain:
        y = rng.integers(0, CLASSES, rows)
        columns: dict[str, Any] = {
            f"x{j}": (y * (j + 1) * 7 % 10) / 3 + shift + rng.normal(size=rows) for j in range(6)
        }
        for gaps in ("x0", "x1"):
            columns[gaps] = np.where(rng.random(rows) < 0.1, np.nan, columns[gaps])
        columns["city"] = rng.choice(["Oslo", "Bergen", "Bodø", "Tromsø"], rows)
        columns["kind"] = np.array(list("abcdefghij"))[(y + rng.integers(0, 3, rows)) % 10]
        columns["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(
            rng.integers(0, 8000, rows), unit="h"
        )
        return Domain(name, pd.DataFrame(columns), y)

    return [domain(f"source {i}", 500, 0.3 * i) for i in range(3)], domain("target", ROWS, 1.0)


def fleet(
    quick: bool, methods: str = BOTH, features: str = "20,800,tables", keys: int = 10_000, rounds: int = 7,
    million: int = 1_000_000, memory: float = 8.0,
) -> Iterator[Row]:  # fmt: skip
    """Three sources, 10 classes, 20 labels for every key. kB of a key on disk (state), while it is held, and of a model
    file of its own; microseconds of an event of mixed batches of 1,000 (`predict` and `learn`, `predict_then_learn`)
    beside models of their own, one row at a time. Then a million keys under 2 GB: a key's first row, a row whose key is
    on disk (miss), one whose key is held (hit)."""
    if quick:
        methods = "hedgerow-linear"
        features = "20"
        keys = 50
        rounds = 2
        million = 3000
    for kind in features.split(","):
        for method in methods.split(","):
            rng = np.random.default_rng(0)
            sources, target = _tables(rng) if kind == "tables" else _numbers(int(kind), rng)
            own = OnlineTransferClassifier(method).fit_domains(sources)
            X = own.as_matrix(target.X) if kind == "tables" else target.X
            y = np.asarray(target.y)
            many = min(keys, 2000) if kind == "800" else keys
            yield Row(
                {"features": kind, "method": method, "keys": many},
                _mixed(own, X, y, many, rounds, memory),
            )
    yield Row({"features": "20", "method": "hedgerow-linear", "keys": million}, _many(million, 2e9))


def _mixed(
    own: OnlineTransferClassifier, X: Any, y: Any, keys: int, rounds: int, memory: float
) -> dict[str, float]:
    rng = np.random.default_rng(0)
    base = Base(own)
    bare = own.to_bytes(constants=False)
    constants = own.constants_
    times = ([], [], [])
    with Fleet(base, memory=int(memory * 2**30), sync="normal") as made:
        for start in range(0, keys, BATCH):
            some = np.repeat(np.arange(start, min(start + BATCH, keys)), 4)
            for _ in range(LABELS // 4):
                at = rng.integers(0, ROWS, len(some))
                made.learn(some, X[at], y[at])
        held = made.stats()["bytes"] / keys
        state = len(made.to_bytes(0))
        models: list[OnlineTransferClassifier] = []
        before = resident()
        while len(models) < min(keys, 1000) and resident() - before < 1.5e9:  # as many as fit
            at = rng.integers(0, ROWS, LABELS)
            models.append(
                OnlineTransferClassifier.from_bytes(bare, constants=constants).partial_fit(
                    X[at], y[at]
                )
            )
        for _ in range(rounds):
            some = rng.integers(0, keys, BATCH)
            again = rng.integers(0, keys, BATCH)
            at = rng.integers(0, ROWS, BATCH)
            few = min(BATCH, 4 * len(models))

            def twice(some: Any = some, at: Any = at) -> None:
                made.predict(some, X[at])
                made.learn(some, X[at], y[at])

            def alone(some: Any = some[:few], at: Any = at[:few]) -> None:
                for key, i in zip(some, at, strict=True):
                    one_by_one(models[key % len(models)], X[i : i + 1], y[i : i + 1])

            works = (
                twice,
                lambda again=again, at=at: made.predict_then_learn(again, X[at], y[at]),
                alone,
            )
            for work, rows, each in zip(works, (BATCH, BATCH, few), times, strict=True):
                began = time.perf_counter()
                work()
                each.append(1e6 * (time.perf_counter() - began) / rows)
    apart, once, single = (float(np.median(each)) for each in times)
    return {
        "us, predict and learn": apart, "us, at once": once, "us, models of their own": single,
        "x their own": single / apart, "state kB": state / 1e3, "held kB": held / 1e3,
        "file kB": len(own.to_bytes()) / 1e3,
    }  # fmt: skip


def fleet_against(
    quick: bool, other: str = "HEAD", features: str = "20,800", keys: int = 2000, rounds: int = 5
) -> Iterator[Row]:
    """Mixed batches of 1,000 rows of this checkout beside another commit (or src folder): processor time over the
    other's, medians of rounds in turns, each a process of its own. With trees the default has heads that a commit
    without them does not have."""
    if quick:
        other = str(HERE)
        features = "20"
        keys = 50
        rounds = 1
    names = ("predict", "learn", "at once")
    with checkout(other) as theirs:
        for kind in features.split(","):
            for what in (
                ("hedgerow-linear",)
                if quick
                else ("hedgerow, no trees", "hedgerow", "hedgerow-linear")
            ):
                took: list[list[dict[str, float]]] = [[], []]
                for _ in range(rounds):
                    for each, source, method in zip(
                        took, (HERE, theirs), (what, what.split(",")[0]), strict=True
                    ):
                        path = os.pathsep.join([str(source), str(HERE.parent)])
                        each.append(
                            child(us_of_batches, method, int(kind), keys, env={"PYTHONPATH": path})
                        )
                ours, before = (
                    {name: float(np.median([one[name] for one in each])) for name in names}
                    for each in took
                )
                figures = {f"{name}, over": ours[name] / before[name] for name in names}
                figures |= {f"us, {name}": ours[name] for name in names}
                limits = {f"{name}, over": "<= 1.05" for name in names}
                setting = {
                    "features": kind,
                    "method": what,
                    "keys": keys,
                    "other": "itself" if quick else other,
                }
                yield Row(setting, figures, limits if what != "hedgerow" else {})


def us_of_batches(what: str, features: int, keys: int) -> dict[str, float]:
    """Microseconds of processor time a row, every key having learned 20 labels before."""
    method, _, no_trees = what.partition(", ")
    sources, target = _numbers(features, np.random.default_rng(0))
    clf = OnlineTransferClassifier(method, **({"trees": False} if no_trees else {}))
    X = target.X
    y = np.asarray(target.y)
    rng = np.random.default_rng(0)
    times = ([], [], [])
    with Fleet(Base(clf.fit_domains(sources)), memory=2**33, sync="normal") as made:
        for start in range(0, keys, BATCH):
            some = np.repeat(np.arange(start, min(start + BATCH, keys)), 4)
            for _ in range(LABELS // 4):
                at = rng.integers(0, ROWS, len(some))
                made.learn(some, X[at], y[at])
        for _ in range(9):
            some = rng.integers(0, keys, BATCH)
            again = rng.integers(0, keys, BATCH)
            at = rng.integers(0, ROWS, BATCH)
            marks = [time.process_time()]
            for work in (
                lambda some=some, at=at: made.predict(some, X[at]),
                lambda some=some, at=at: made.learn(some, X[at], y[at]),
                lambda again=again, at=at: made.predict_then_learn(again, X[at], y[at]),
            ):
                work()
                marks.append(time.process_time())
            for each, seconds in zip(times, np.diff(marks), strict=True):
                each.append(1e6 * seconds / BATCH)
    return dict(
        zip(
            ("predict", "learn", "at once"), (float(np.median(each)) for each in times), strict=True
        )
    )


def _many(keys: int, memory: float) -> dict[str, float]:
    """Every key once, a tenth of them again, the last of these once more; nothing is lost."""
    rng = np.random.default_rng(0)
    size = min(2000, keys // 10)
    sources, target = _numbers(20, rng)
    X = target.X
    y = np.asarray(target.y)
    us = {}
    again = rng.permutation(keys)[: keys // 10]
    with (
        tempfile.TemporaryDirectory() as folder,
        Fleet(sources, "hedgerow-linear", path=folder, memory=int(memory), sync="normal") as made,
    ):
        for what, some in (("first", np.arange(keys)), ("miss", again), ("hit", again[-size:])):
            began = time.perf_counter()
            for start in range(0, len(some), size):
                at = rng.integers(0, ROWS, len(some[start : start + size]))
                made.learn(some[start : start + size], X[at], y[at])
            us[f"us, {what}"] = 1e6 * (time.perf_counter() - began) / len(some)
        made.flush()
        stats = made.stats()
    assert stats["rows_stored"] == keys + len(again) + size, stats
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return us | {
        "peak GB": peak,
        "file GB": stats["file_bytes"] / 1e9,
        "rows stored": stats["rows_stored"],
    }


def warmup(
    quick: bool, data: str = "office-caltech", methods: str = BOTH, orders: int = 2
) -> Iterator[Row]:
    """Mistakes in % of a key's stream without warm-up rows, with them, and of a model of its own that was fitted with
    them (its maps look at them too). Differences of about a point mean nothing here."""
    for target in ("shifted",) if quick else load(data):
        for method in methods.split(",")[1 if quick else 0 :]:
            domains = load("digits" if quick else data)
            sources = [domain for key, domain in domains.items() if key != target]
            rows, stream = split(domains[target], warmup=0.3, seed=0)
            own = OnlineTransferClassifier(method).fit_domains(sources, rows)
            bare = own.to_bytes(constants=False)
            wrong = []
            with Fleet(sources, method) as made:
                for order in range(orders):
                    at = np.random.default_rng(order).permutation(len(stream))
                    X = stream.X[at]
                    y = stream.y[at]
                    made.warm_up(f"warm {order}", rows.X)
                    model = OnlineTransferClassifier.from_bytes(bare, constants=own.constants_)
                    everyone = (made[f"none {order}"], made[f"warm {order}"], model)
                    wrong.append(
                        [100 * np.mean(each.predict_then_learn(X, y) != y) for each in everyone]
                    )
            figures = dict(zip(("none", "warm", "own"), np.mean(wrong, axis=0), strict=True))
            yield Row({"task": target, "method": method}, figures)
