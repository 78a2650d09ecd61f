"""How far a fleet goes: one and two workers are measured, many are simulated with the costs that were measured.

    python -m bench workers                                   measure what a batch costs: bench/rows/workers.jsonl
    python -m bench.scale                                     simulate, and write the tables of docs/how-far-it-goes.md
    python -m bench.scale skew workers=200 brokers=8 batch=5000     one scenario with other assumptions

A batch of a worker costs something by itself, something a row, more for a key that has to be read from the disk, and
where a key has so many labels that it has a model of its own, another price a row and one a call of that model; all in
processor time, so that other programs on the machine do not matter. A billion keys are no objects: keys of nearly the
same frequency are one bucket, and a key that is asked for at the rate p is in a memory that keeps the newest with
probability 1 - exp(-p T), T such that what is kept fills the memory (Che, Tung, Wang, 2002).
"""

from __future__ import annotations

import heapq
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import child, spawn
from bench.record import ROOT, Row, latest, rows
from hedgerow import Domain
from hedgerow.fleet import Fleet

LABELS, CLASSES, LIGHT = 20, 5, 64  # labels a key, and up to how many it has no model of its own
MEASURED = (("hedgerow-linear", 20), ("hedgerow", 20), ("hedgerow-linear", 800))
GBIT = 1e9 / 8  # bytes a second
FOREVER = 1e18

# -- measured ---------------------------------------------------------------------------------------------------------


def worker(method: str, features: int, keys: int) -> dict[str, float]:
    """The costs of one worker, and its speed with a size of batch that they were not fitted to."""
    rng, few = np.random.default_rng(0), max(4, keys // 50)
    centres = rng.normal(size=(CLASSES, features)) * min(1.0, np.sqrt(60 / features))

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, CLASSES, n)
        return (centres[y] + rng.normal(size=(n, features))).astype(np.float32).astype(float), y

    def seconds(fleet: Fleet, some: np.ndarray) -> float:
        X, y = drawn(len(some))
        began = time.process_time()
        fleet.predict_then_learn(some, X, y)
        return time.process_time() - began

    def started(fleet: Fleet) -> None:
        for _ in range(LABELS // 4):
            for part in np.array_split(np.arange(keys), max(1, keys // 250)):
                seconds(fleet, np.repeat(part, 4))
        fleet.flush()

    sources = [Domain(f"source {i}", *drawn(100)) for i in range(3)]
    with Fleet(sources, method, memory=2**33, sync="normal") as fleet:
        started(fleet)
        held, state, constants = fleet.stats()["bytes"] / keys, len(fleet.to_bytes(0)), len(fleet.base.to_bytes())
        size = keys // 4
        small, middle, large = (
            float(np.median([seconds(fleet, rng.choice(keys, n)) for _ in range(9)])) for n in (keys // 20, size, keys)
        )
        began = time.process_time()
        fleet.flush()
        written = (time.process_time() - began) / keys
        row = max(large - small, 1e-9) / (keys - keys // 20)
        batch = max(small - row * (keys // 20), 1e-6)
        before = fleet.stats()["bytes"]
        for _ in range(3):  # some keys get models of their own; the last batches find all of them
            many, once = (
                float(np.median([seconds(fleet, np.tile(np.arange(keys, keys + few), n)) for _ in range(5)]))
                for n in (50, 1)
            )
        heavy = max(many - once, 0.0) / (49 * few)
        call = max((once - batch) / few - heavy, 0.0)
        fleet.flush()
        own = (fleet.stats()["bytes"] - before) / few
    with (
        tempfile.TemporaryDirectory() as folder,
        Fleet(sources, method, path=folder, memory=int(held * keys / 4)) as fleet,
    ):
        started(fleet)
        for _ in range(3):  # more keys than fit, in turn: each is missed
            before = fleet.stats()["misses"]
            spent = [seconds(fleet, part) for part in np.array_split(np.arange(keys), 4)]
            missed = fleet.stats()["misses"] - before
        miss = max(sum(spent) - 4 * batch - row * keys, 0.0) / max(missed, 1)
    weights = 1 / np.arange(1, keys + 1)
    stream = rng.choice(keys, 6 * keys, p=weights / weights.sum())
    there, left, light = Counter(), 0.0, 0
    with Fleet(sources, method, memory=2**33, sync="normal") as fleet:
        for i, part in enumerate(np.array_split(stream, len(stream) // size)):
            spent, before = seconds(fleet, part), dict(there)
            there.update(part.tolist())
            if i >= 8:  # by then most keys are there
                own_keys = {key for key in part.tolist() if before.get(key, 0) > LIGHT}
                own_rows = sum(key in own_keys for key in part.tolist())
                left += spent - batch - heavy * own_rows - call * len(own_keys)
                light += len(part) - own_rows
    return {
        "ms a batch": 1e3 * batch, "us a row": 1e6 * row, "us a miss": 1e6 * miss, "us a heavy row": 1e6 * heavy,
        "us a heavy call": 1e6 * call, "us a key written": 1e6 * written,
        "held kB": held / 1e3, "heavy kB": own / 1e3, "state kB": state / 1e3, "constants kB": constants / 1e3,
        "us a skewed row": 1e6 * left / light, "rows/s": size / middle, "by the costs": size / (batch + row * size),
    }  # fmt: skip


def workers(quick: bool, keys: int = 1000) -> Iterator[Row]:
    """What a batch costs a worker (a process with a fleet of its own) in processor time, `predict_then_learn` after 20
    labels a key: fitted to batches of two sizes, keys on disk, keys with models of their own, and a stream whose keys
    follow Zipf's law. Batches of a third size show what the costs are worth: rows a second, and by the costs. "two at
    once": the speed of each of two processes together over that of one."""
    for method, features in (("hedgerow-linear", 20),) if quick else MEASURED:
        size = 100 if quick else keys
        env = {"OPENBLAS_NUM_THREADS": "1"}
        alone = child(worker, method, features, size, env=env)
        pair = [spawn(worker, method, features, size, env=env, stdout=subprocess.PIPE) for _ in range(2)]
        both = [json.loads(process.communicate()[0].splitlines()[-1])["rows/s"] for process in pair]
        figures = {**alone, "two at once": sum(both) / 2 / alone["rows/s"]}
        yield Row({"method": method, "features": features}, figures)


# -- keys -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """So many keys; the i-th has a share of 1 / i^zipf, 0: all alike. The first 2,000 ranks are a bucket each."""

    keys: int
    zipf: float = 0.0

    @cached_property
    def buckets(self) -> tuple[np.ndarray, np.ndarray]:
        """How many keys, and the share of each of them."""
        if not self.zipf:
            return np.array([float(self.keys)]), np.array([1.0 / self.keys])
        exact = np.arange(1, min(self.keys, 2000) + 1)
        weights, counts = [exact ** -float(self.zipf)], [np.ones(len(exact))]
        if self.keys > 2000:
            ends = np.unique(np.geomspace(2000, self.keys, 400).astype(np.int64)) + 0.5
            a, b, s = ends[:-1], ends[1:], self.zipf
            mass = np.log(b / a) if s == 1 else (b ** (1 - s) - a ** (1 - s)) / (1 - s)
            weights.append(mass / (b - a))
            counts.append(b - a)
        c, w = np.concatenate(counts), np.concatenate(weights)
        return c, w / (c * w).sum()


@dataclass(frozen=True)
class Cluster:
    """Workers of a core each; a machine has `cores` of them behind one network card. Rates are rows a second."""

    costs: dict[str, float]
    features: int
    law: Law
    workers: int
    batch: int = 1000
    linger: float = 0.05  # seconds after which a batch is taken that is not full
    memory: float = 8e9  # bytes a worker
    cores: int = 16
    machine_gbit: float = 10.0
    machine_disk: float = 1e9  # bytes a second that a machine writes
    brokers: int = 4
    broker_gbit: float = 10.0
    checkpoint: float = 60.0
    store_gbit: float = 40.0  # where checkpoints go, for all workers together
    disk_read: float = 1e-4  # seconds of a read that the system has not in memory
    slow: float = 0.01  # of the workers are stragglers,
    slowness: float = 1.3  # so many times slower
    mtbf: float = FOREVER  # seconds between failures of a worker
    restart: float = 10.0  # seconds until a failed worker is missed, and a new one has begun

    @property
    def row_bytes(self) -> int:
        """Over the network: the row and some bytes for key, label and prediction."""
        return 8 * self.features + 11

    @cached_property
    def labels(self) -> np.ndarray:
        """Of the keys of each bucket."""
        return self.law.buckets[1] * self.law.keys * LABELS

    @cached_property
    def sizes(self) -> np.ndarray:
        """Bytes of a key in memory, by bucket."""
        return 1e3 * np.where(self.labels > LIGHT, self.costs["heavy kB"], self.costs["held kB"])

    @cached_property
    def misses(self) -> float:
        """The share of rows whose key is not in memory."""
        (count, p), room = self.law.buckets, self.workers * self.memory
        if (count * self.sizes).sum() <= room:
            return 0.0
        low, high = 0.0, 1e15
        for _ in range(100):
            middle = (low + high) / 2 if low else high / 1e3
            full = (count * self.sizes * -np.expm1(-p * middle)).sum() > room
            low, high = (low, middle) if full else (middle, high)
        return float((count * p * np.exp(-p * high)).sum())

    @cached_property
    def written(self) -> float:
        """Keys that a checkpoint writes, a row: each that changed in an interval, once."""
        (count, p), rows = self.law.buckets, self.checkpoint * 1e6 / self.costs["us a row"]
        return float((count * -np.expm1(-p * rows * self.workers)).sum()) / self.workers / rows

    @cached_property
    def hottest(self) -> float:
        """The share of all rows that the worker of the most frequent key has."""
        return float(self.law.buckets[1][0]) + 1 / self.workers

    def seconds(self, n: float, hot: bool = False, cold: bool = False) -> float:
        """A batch of n rows, with its part of the checkpoint; `hot`: of the worker with the most frequent key; `cold`:
        of one whose memory is empty."""
        (count, p), cost = self.law.buckets, self.costs
        many = self.labels > LIGHT
        heavy, missed = float((count * p)[many].sum()), 1.0 if cold else self.misses
        alike = n / (self.workers * self.hottest) if hot else n  # rows of all other keys
        calls = float((count * -np.expm1(-p * alike * self.workers))[many].sum()) / self.workers + hot
        own = heavy * alike + (n - alike)
        row = cost["us a skewed row" if self.law.zipf else "us a row"]
        each = row * (n - own) + cost["us a heavy row"] * own + cost["us a heavy call"] * calls
        missing = missed * alike * (1e-6 * cost["us a miss"] + self.disk_read)
        written = 1e-6 * cost["us a key written"] * n * self.written
        return 1e-3 * cost["ms a batch"] + 1e-6 * each + missing + written + n * self.row_bytes / self.machine_disk

    @cached_property
    def limits(self) -> dict[str, float]:
        """Rows a second at which each part is busy all the time."""
        most = max(self.hottest, 1 / self.workers)
        machines = -(-self.workers // self.cores)
        found = {
            "workers": self.workers * self.batch / self.seconds(self.batch),
            "broker network": self.broker_gbit * GBIT / self.row_bytes * self.brokers,
            "worker network": self.machine_gbit * GBIT / self.row_bytes * machines,
            "worker disk": self.machine_disk / self.row_bytes * machines,
            "checkpoint store": self.store_gbit * GBIT / (4 * self.features + 44),
        }
        if self.law.zipf and self.workers > 1:
            found["hottest worker"] = self.batch / self.seconds(self.batch, hot=True) / most
        return found

    @property
    def capacity(self) -> tuple[float, str]:
        """Rows a second, and what is full then."""
        why = min(self.limits, key=lambda name: self.limits[name])
        return self.limits[why], why

    def run(self, rate: float, seconds: float = 0.0, seed: int = 0) -> dict[str, Any]:
        """`rate` rows a second, event by event: a worker takes what has come for it (Poisson), up to a batch, waits for
        its broker and for its machine's network and works; the first third is not counted."""
        rng, W = np.random.default_rng(seed), self.workers
        end = seconds or 40 * (self.linger + self.seconds(self.batch))
        shares = np.full(W, (1 - self.hottest + 1 / W) / W if self.law.zipf else 1 / W)
        if self.law.zipf:
            shares[0] = self.hottest
        slowed = np.where(rng.permutation(W) < round(self.slow * W), self.slowness, 1.0)
        free: Counter[Any] = Counter()  # when a broker or a machine's network card is free again
        came, waiting, cold = np.zeros(W), [list[tuple[float, int]]() for _ in range(W)], np.zeros(W)
        fails = rng.exponential(self.mtbf, W)
        events = [(self.linger * rng.random(), w) for w in range(W)]
        heapq.heapify(events)
        late, weights, done, failures = [], [], 0, 0
        while events[0][0] < end:
            now, w = heapq.heappop(events)
            if now > fails[w]:
                failures += 1
                fails[w], cold[w] = now + rng.exponential(self.mtbf), self.law.keys / W
                rows = min(rate * shares[w] * self.checkpoint / 2, 1e9)  # since the last checkpoint
                relearned = rows / self.batch * self.seconds(self.batch, cold=True)
                heapq.heappush(events, (now + self.restart + relearned, w))
                continue
            n = rng.poisson(rate * shares[w] * (now - came[w]))
            waiting[w] += [((came[w] + now) / 2, int(n))] if n else []
            came[w] = now
            taken, parts = 0, []
            while waiting[w] and taken < self.batch:
                when, n = waiting[w].pop(0)
                some = min(n, self.batch - taken)
                parts.append((when, some))
                taken += some
                if some < n:
                    waiting[w].insert(0, (when, n - some))
            if not taken:
                heapq.heappush(events, (now + self.linger, w))
                continue
            at, size = now, taken * self.row_bytes
            for name, gbit in (
                (("broker", w % self.brokers), self.broker_gbit),
                (("card", w // self.cores), self.machine_gbit),
            ):
                free[name] = max(at, free[name]) + size / (gbit * GBIT)
                at = free[name]
            noise = float(np.exp(0.15 * rng.normal()))
            at += self.seconds(taken, hot=bool(self.law.zipf) and w == 0, cold=cold[w] > 0) * slowed[w] * noise
            cold[w] -= taken
            if at > end / 3:
                done += taken
                late += [at - when for when, _ in parts]
                weights += [some for _, some in parts]
            heapq.heappush(events, (max(at, now + self.linger) if taken < self.batch else at, w))
        order = np.argsort(late)
        total = np.cumsum(np.array(weights)[order])
        p50, p99 = (late[order[min(np.searchsorted(total, q * total[-1]), len(order) - 1)]] for q in (0.5, 0.99))
        return {"rows/s": done / (end * 2 / 3), "p50": p50, "p99": p99, "failures": failures}


# -- scenarios and the page -------------------------------------------------------------------------------------------

SCENARIOS: dict[str, tuple[str, int, int, int, float]] = {  # method, features, keys a worker, keys in all, zipf
    "fits": ("hedgerow-linear", 20, 100_000, 0, 0.0),
    "own": ("hedgerow", 20, 50_000, 0, 0.0),
    "wide": ("hedgerow-linear", 800, 5_000, 0, 0.0),
    "billion": ("hedgerow-linear", 20, 0, 10**9, 0.0),
    "skew": ("hedgerow-linear", 20, 0, 10**9, 1.0),
}
PAGE = ROOT / "docs" / "how-far-it-goes.md"
BUSY = 0.7  # of its capacity: how busy what is bought may be


def cluster(name: str, workers: int, **options: Any) -> Cluster:
    method, features, each, total, zipf = SCENARIOS[name]
    setting = {"method": method, "features": features}
    costs = next(line["figures"] for line in latest(rows("workers")) if line["setting"] == setting)
    return Cluster(costs, features, Law(total or each * workers, zipf), workers, **options)


def title(name: str) -> str:
    method, features, each, total, zipf = SCENARIOS[name]
    keys = f"{each:,} keys a worker" if each else f"{total:,} keys, {'Zipf 1.0' if zipf else 'all alike'}"
    return f"`{method}`, {features} features, {keys}"


def two(x: float) -> str:
    """Two figures that mean something.

    >>> two(1234567), two(0.01234), two(17.2)
    ('1,200,000', '0.012', '17')
    """
    return f"{round(x, -max(len(str(int(x))) - 2, 0)):,.0f}" if x >= 10 else f"{x:.2g}"


def grown() -> Iterator[list[str]]:
    yield ["what runs", "rows/s, 1 worker", "10", "100", "1,000", "what stops it at 1,000", "p99 at 70 %, 1 and 1,000"]
    for name in SCENARIOS:
        made = [cluster(name, workers) for workers in (1, 10, 100, 1000)]
        late = [f"{1e3 * each.run(BUSY * each.capacity[0])['p99']:.0f}" for each in (made[0], made[-1])]
        yield [title(name), *(two(each.capacity[0]) for each in made), made[-1].capacity[1], f"{' and '.join(late)} ms"]


def bought() -> Iterator[list[str]]:
    yield ["what runs", "rows/s", "workers", "machines of 16 cores", "brokers", "memory for keys, GB", "states, GB"]
    for name in SCENARIOS:
        for load in (10_000, 100_000, 1_000_000):
            fewest, most = 1, 1000
            brokers = int(np.ceil(load * cluster(name, 1).row_bytes / (BUSY * 10 * GBIT)))
            if BUSY * cluster(name, most, brokers=brokers).capacity[0] < load:
                full = cluster(name, most, brokers=brokers).capacity
                yield [title(name), f"{load:,}", f"1,000 do {two(BUSY * full[0])}: {full[1]}", "", "", "", ""]
                continue
            while fewest < most:
                middle = (fewest + most) // 2
                enough = BUSY * cluster(name, middle, brokers=brokers).capacity[0] >= load
                fewest, most = (fewest, middle) if enough else (middle + 1, most)
            made = cluster(name, fewest, brokers=brokers)
            count, _ = made.law.buckets
            held = min((count * made.sizes).sum(), fewest * made.memory) / 1e9
            states = (
                count * np.minimum(made.labels / LABELS * made.costs["state kB"], made.costs["heavy kB"])
            ).sum() / 1e6
            yield [title(name), f"{load:,}", str(fewest), str(-(-fewest // 16)), str(brokers), two(held), two(states)]


def failed() -> Iterator[list[str]]:
    yield ["50 workers at half load, 10 minutes", "failures", "p50", "p99"]
    for checkpoint in (10.0, 60.0):
        for mtbf, words in ((FOREVER, "never"), (3600.0, "once an hour"), (1200.0, "once in 20 minutes")):
            made = cluster("fits", 50, checkpoint=checkpoint, mtbf=mtbf)
            run = made.run(0.5 * made.capacity[0], 600.0)
            what = f"checkpoint every {checkpoint:.0f} s, a worker fails {words}"
            yield [what, str(run["failures"]), f"{two(run['p50'])} s", f"{two(run['p99'])} s"]


def write(page: Path = PAGE) -> None:
    """The tables between their marks."""
    text = page.read_text(encoding="utf-8")
    for name, lines in (("workers", grown()), ("buy", bought()), ("failures", failed())):
        first, *rest = lines
        table = [first, ["---"] * len(first), *rest]
        made = "\n".join(f"| {' | '.join(line)} |" for line in table)
        text = re.sub(rf"(<!-- simulated: {name} -->\n).*?(<!-- end -->)", rf"\g<1>{made}\n\g<2>", text, flags=re.S)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        write()
    else:
        given = dict(word.split("=") for word in sys.argv[2:])
        one = cluster(sys.argv[1], int(given.pop("workers", 10)))
        one = replace(one, **{key: type(getattr(one, key))(value) for key, value in given.items()})
        print(one.capacity, one.limits, one.run(BUSY * one.capacity[0]))
