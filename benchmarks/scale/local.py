"""The measured workers, simulated: the same feeder, window and batches, with seconds from the cost model.

The simulation knows the setting, the stream of keys, the model and which share of a core the processes had in the
measured run (other programs ran beside); misses come from Che's approximation, as for many workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import simpy

from scale.counting import Labels
from scale.law import Law, Use
from scale.measure import WINDOW
from scale.model import Model, Row, Shape, fit, medians
from scale.setting import Setting, drawn_keys, worker_of

WHAT = ("rows_a_second", "latency_mean", "latency_p50", "latency_p99")
SEED = 0  # of how much batches vary


class Local:
    """A feeder and workers; `run` gives what a measured row has."""

    def __init__(self, setting: Setting, row: Row, model: Model) -> None:
        self.setting, self.model, self.shape = setting, model, Shape.of(row["shape"])
        self.shares, self.feeder_share = [each["share"] for each in row["each"]], row["feeder"]["share"]
        self.spread = [spread(each) for each in row["each"]]
        self.row_bytes = row["moved_bytes"] / (setting.rows * row["workers"])
        self.seed, self.env, self.rng = row["seed"], simpy.Environment(), np.random.default_rng(SEED)
        self.latencies: list[float] = []

    def run(self) -> dict[str, float]:
        workers = len(self.shares)
        self.queues = [simpy.Store(self.env) for _ in range(workers)]
        self.windows = [simpy.Resource(self.env, WINDOW) for _ in range(workers)]
        for w in range(workers):
            self.env.process(self.worker(w))
        self.env.run(self.env.process(self.feeder()))
        self.env.run()
        return {
            "rows_a_second": self.setting.rows * workers / self.env.now,
            "latency_mean": float(np.mean(self.latencies)),
            "latency_p50": float(np.quantile(self.latencies, 0.5)),
            "latency_p99": float(np.quantile(self.latencies, 0.99)),
        }

    def feeder(self) -> Iterator[Any]:
        keys = drawn_keys(self.setting, len(self.shares), self.seed)
        owner = worker_of(keys, len(self.shares))
        waiting: list[list[int]] = [[] for _ in self.shares]
        for key, w in zip(keys.tolist(), owner.tolist(), strict=True):
            waiting[w].append(key)
            if len(waiting[w]) == self.setting.batch:
                yield from self.send(w, waiting[w])
                waiting[w] = []
        for w, some in enumerate(waiting):
            if some:
                yield from self.send(w, some)

    def send(self, w: int, keys: list[int]) -> Iterator[Any]:
        seconds = self.model.fed(len(keys), self.row_bytes)
        yield self.env.timeout(seconds)
        place = self.windows[w].request()
        yield place
        yield self.env.timeout(seconds / self.feeder_share - seconds)  # until a feeder that slept has a core again
        self.queues[w].put((self.env.now, place, keys))

    def worker(self, w: int) -> Iterator[Any]:
        labels, seen, n = Labels(self.shape.most, lambda _: False), 0, self.setting.keys
        while True:
            sent, place, keys = yield self.queues[w].get()
            counts: dict[str, float] = dict(labels.before(keys))
            self.add_misses(counts, keys, labels, Law(n, self.setting.zipf), seen)
            seen += len(keys)
            seconds = self.model.batch(self.shape, counts, self.row_bytes) / self.shares[w]
            sd = self.spread[w]
            yield self.env.timeout(seconds * float(np.exp(sd * self.rng.normal() - sd * sd / 2)))
            self.windows[w].release(place)
            self.latencies.append(self.env.now - sent)

    def add_misses(self, counts: dict[str, float], keys: list[int], labels: Labels, law: Law, seen: int) -> None:
        """New keys, and those that had to leave: a key is there if it was asked for lately."""
        before = labels.labels
        new = sum(before[key] == times for key, times in _tally(keys).items())
        counts["misses"] = new
        use = Use(law, self.shape, seen / law.keys, 1, self.setting.memory)
        if use.reach < seen:
            gone = np.exp(-use.reach / law.keys) - np.exp(-seen / law.keys)  # known, and not asked for since
            t = seen / law.keys
            counts["misses"] += gone * counts["keys"]
            counts["again"] += gone * counts["keys"] * t
            counts["past"] += gone * counts["keys"] * t * t / 2


def spread(each: Row) -> float:
    """How much the logarithm of a batch's seconds a row varies beside what it does from part to part of a run."""
    parts = each["parts"]
    means = np.log([part["wall"] / part["rows"] for part in parts])
    between = np.average((means - means.mean()) ** 2, weights=[part["batches"] for part in parts])
    return float(np.sqrt(max(each["sd_log_wall_a_row"] ** 2 - between, 0.0)))


def _tally(keys: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for key in keys:
        found[key] = found.get(key, 0) + 1
    return found


def check(rows: Sequence[Row], held_out: bool = False) -> list[dict[str, Any]]:
    """Each setting and number of workers: the medians of the measured runs beside those of their simulations.

    `held_out`: the model is fitted without the setting that it is compared with.
    """
    found, names = [], list(dict.fromkeys(row["setting"]["name"] for row in rows))
    for name in names:
        own = [row for row in rows if row["setting"]["name"] == name]
        others = [row for row in rows if row["setting"]["name"] != name]
        model = fit(others if held_out else rows)
        for (_, workers), measured in medians(own).items():
            runs = [row for row in own if row["workers"] == workers]
            said = [Local(Setting(**row["setting"]), row, model).run() for row in runs]
            for what in WHAT:
                simulated = float(np.median([one[what] for one in said]))
                pair = {"measured": measured[what], "simulated": simulated, "ratio": simulated / measured[what]}
                found.append({"setting": name, "workers": workers, "what": what, **pair})
    return found
