"""Real streams in their own order, whose labels come at once or some rows late, for our learner, two rules of one line
and what people use instead."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench import tables
from bench.measure import DATA, child
from bench.pages import Line
from bench.peers import ENVIRONMENT, PEERS, Own, Stream, TimeUp, alarm
from bench.record import Row
from bench.sides import checkout
from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.comparison.tables import Table

STREAMS = ("elec2", "weather", "bikes", "rats", "hotel", "mpls")
DELAYS = "0,10,48,100"
PAST = 0.15  # of a stream without domains: three sources by time
DAYS = 30  # before an hour, whose median its riders are compared with
HOURS = 24
MONTHS = ("Feb", "March", "April")  # the sources; in January the median has no 30 days behind it
RULES = ("last label", "transition table")
BEFORE = "df844b0"  # a commit without the head that repeats the last label
WHO = ";".join(
    ["hedgerow", f"hedgerow {BEFORE}", *RULES, "sklearn logistic, refitted", "sklearn boosting, refitted",
     "LightGBM, refitted", "VW --oaa", "river ARF", "river SRP", "river LevBag"]
)  # fmt: skip


# -- the streams ------------------------------------------------------------------------------------------------------


def task_of(name: str) -> tables.Task:
    """Sources and stream of one of STREAMS; no row of the target is known in advance."""
    if name in ("rats", "hotel", "mpls"):
        names, target = tables.TASKS[name]
        data = _read("tables", name)
        own = {k: data[data.domain == k].reset_index(drop=True) for k in (*names, target)}
        parts = [tables.Source(k, *_labelled(part, "domain")) for k, part in own.items()]
    else:
        data, ends = _bikes() if name == "bikes" else _in_time(name)
        cuts = zip([0, *ends], [*ends, len(data)], strict=True)
        pieces = [data[a:b].reset_index(drop=True) for a, b in cuts]
        parts = [tables.Source(f"part {i}", *_labelled(p)) for i, p in enumerate(pieces)]
    *sources, stream = parts
    return tables.Task(sources, stream.X[:0], stream.X, stream.y)


def _read(folder: str, name: str) -> pd.DataFrame:
    path = Path(DATA or "") / folder / f"{name}.csv.gz"
    return _with_gaps(pd.read_csv(path, dtype={"domain": str, "label": str}))


def _with_gaps(data: pd.DataFrame) -> pd.DataFrame:
    """None where a cell of text is missing."""
    for column in data.columns.difference(["domain", "label"]):
        if not pd.api.types.is_numeric_dtype(data[column]):
            data[column] = data[column].astype(object).where(data[column].notna(), None)
    return data


def _labelled(data: pd.DataFrame, *others: str) -> tuple[pd.DataFrame, np.ndarray]:
    return data.drop(columns=["label", *others]), data.label.to_numpy(object)


def _in_time(name: str) -> tuple[pd.DataFrame, list[int]]:
    data = _read("streams", name)
    return data, np.linspace(0, PAST * len(data), 4).astype(int)[1:].tolist()


def _bikes() -> tuple[pd.DataFrame, list[int]]:
    """Hours of a bicycle hire: whether more are out than in the median hour of the 30 days before."""
    package = find_spec("ISLP")
    if package is None or package.origin is None:
        raise RuntimeError("the bicycles are in the package ISLP: pip install --no-deps ISLP")
    data = pd.read_csv(Path(package.origin).parent / "data" / "Bikeshare.csv")
    usual = data.bikers.rolling(DAYS * HOURS, min_periods=HOURS).median().shift(1)
    data["label"] = np.where(data.bikers > usual, "many", "few")
    data = data[data.mnth != "Jan"].reset_index(drop=True)
    ends = [int(np.flatnonzero(data.mnth == month)[-1]) + 1 for month in MONTHS]
    unnamed = [column for column in data if str(column).startswith("Unnamed")]
    left = data.drop(columns=["bikers", "casual", "registered", *unnamed], errors="ignore")
    return _with_gaps(left), ends


# -- who predicts -----------------------------------------------------------------------------------------------------


class Rule:
    """The newest label that is known, or what most often followed it; the sources are of no use to it."""

    def __init__(self, table: bool, K: int) -> None:
        self.counts = np.eye(K) if not table else np.full((K, K), 1 / K)
        self.table = table
        self.known = 0

    def predict(self, row: Any) -> np.ndarray:
        """The counts of what followed the label that is known now."""
        return self.counts[self.known]

    def learn(self, row: Any, code: int, known: int) -> None:
        """The label of a row for which `known` was the newest."""
        if self.table:
            self.counts[known, code] += 1
        self.known = code


class Ours:
    """Ours by its public interface, live: what was known when a row was predicted is said with its label."""

    def __init__(self, task: tables.Task, classes: list[Any]) -> None:
        sources = [Domain(*source) for source in task.sources]
        self.model = OnlineTransferClassifier(classes=classes).fit_domains(sources)
        self.rows = np.ascontiguousarray(self.model.as_matrix(task.stream))
        self.classes = classes

    def predict(self, row: Any) -> np.ndarray:
        """The probabilities."""
        return np.array(list(self.model.predict_proba_one(row).values()))

    def learn(self, row: Any, code: int, known: int) -> None:
        """A label that came later, or at once."""
        newest = float("nan") if known < 0 else self.classes[known]
        self.model.learn_one(row, self.classes[code], known=newest)


ANOTHER = """
import pickle, sys, time
import numpy as np
from hedgerow import Domain, OnlineTransferClassifier
sources, stream, labels, classes, delay = pickle.load(sys.stdin.buffer)
clf = OnlineTransferClassifier(classes=classes).fit_domains([Domain(*each) for each in sources])
rows, wrong = np.ascontiguousarray(clf.as_matrix(stream)), []
began = time.process_time()
for i, row in enumerate(rows):
    wrong.append(clf.predict_one(row) != labels[i])
    if i >= delay:
        clf.learn_one(rows[i - delay], labels[i - delay])
print(np.packbits(wrong).tobytes().hex(), (time.process_time() - began) / len(rows))
"""


def another(
    commit: str, task: tables.Task, classes: list[Any], delay: int
) -> tuple[np.ndarray, float]:
    """The same by the library of another commit, in a process of its own."""
    given = [tuple(source) for source in task.sources], task.stream, task.labels, classes, delay
    with checkout(commit) as source:
        done = subprocess.run(
            [sys.executable, "-c", ANOTHER], input=pickle.dumps(given), stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(source)}, check=True,
        )  # fmt: skip
    text, seconds = done.stdout.split()[-2:]
    bits = np.frombuffer(bytes.fromhex(text.decode()), np.uint8)
    return np.unpackbits(bits, count=len(task.labels)).astype(bool), float(seconds)


def wrong_of(
    who: str, task: tables.Task, delay: int, limit: float, size: int = 50
) -> tuple[np.ndarray, float]:
    """Which predictions were mistakes, as far as the limit of CPU seconds allows, and seconds a row.

    The label of a row comes right behind the arrival of the row `delay` places after it.
    """
    labels = [*(source.y for source in task.sources), task.labels]
    classes, codes = np.unique(np.concatenate(labels).astype(str), return_inverse=True)
    codes, ends = codes.astype(int), np.cumsum([len(y) for y in labels])
    y = codes[ends[-2] :]
    first = {str(label): label for part in labels for label in part}
    if who.startswith("hedgerow "):
        return another(who.split()[1], task, [first[k] for k in classes], delay)
    began = time.process_time()
    wrong: list[bool] = []
    with suppress(TimeUp), alarm(limit):
        model, rows = _started(who, task, [first[k] for k in classes], codes, ends)
        known = -1  # the newest label that is known
        waiting: deque[tuple[int, int]] = deque()
        began = time.process_time()
        for i, row in enumerate(rows):
            shares = model.predict(row)
            wrong.append(shares is None or int(np.argmax(shares)) != y[i])
            waiting.append((i, known))
            if len(waiting) > delay:
                j, then = waiting.popleft()
                if isinstance(model, Rule | Ours):
                    model.learn(rows[j], int(y[j]), then)
                else:
                    model.learn(rows[j], int(y[j]))
                known = int(y[j])
    return np.array(wrong), (time.process_time() - began) / max(len(wrong), 1)


def _started(
    who: str, task: tables.Task, classes: list[Any], codes: np.ndarray, ends: np.ndarray
) -> tuple[Any, Any]:
    """A learner that knows the sources, and the rows of the stream as it reads them."""
    if who in RULES:
        return Rule(who == RULES[1], len(classes)), range(len(task.stream))
    if who == "hedgerow":
        ours = Ours(task, classes)
        return ours, ours.rows
    warmed = task._replace(warmup=pd.concat([source.X for source in task.sources]))
    X, rows = tables.columns(warmed, one_hot=True)
    told = np.split(codes[: ends[-2]], ends[:-2])
    together = np.arange(ends[-2])
    stream = Stream(X, told, together, rows[:0], rows, codes[ends[-2] :], len(classes))
    if who == "LightGBM, refitted":
        kind = PEERS["sklearn boosting, refitted"][1]
        make = lambda _: importlib.import_module("lightgbm").LGBMClassifier(verbose=-1)  # noqa: E731
    else:
        _, kind, make = PEERS[who]
    assert kind is not Own
    peer = kind(make, False, stream)
    if peer.row_by_row:
        for x, code in zip(*stream.pooled(), strict=True):
            peer.learn(peer.form(x), int(code))
    else:
        peer.fit(stream)
    return peer, [peer.form(x) for x in rows]


# -- the benchmark ----------------------------------------------------------------------------------------------------


def cell(name: str, who: str, delay: int, rows: int, limit: float) -> dict[str, Any]:
    """The figures of one run."""
    warnings.simplefilter("ignore")
    task = task_of(name)
    task = task._replace(stream=task.stream[:rows], labels=task.labels[:rows])
    wrong, seconds = wrong_of(who, task, delay, limit)
    last, _ = wrong_of(RULES[0], task, delay, limit)
    rate, rule = 100 * wrong.mean(), 100 * last[: len(wrong)].mean()
    return {
        "rows": len(wrong), "finished": len(wrong) == len(task.labels), "mistakes %": rate,
        "kappa temporal": 1 - rate / rule, "ms a row": 1e3 * seconds,
    }  # fmt: skip


def streams(
    quick: bool, names: str = ",".join(STREAMS), who: str = WHO, delays: str = DELAYS, rows: int = 6000,
    limit: float = 120.0,
) -> Iterator[Row]:  # fmt: skip
    """Rows in their own order, each predicted before its label, which comes so many rows late. elec2 and weather
    (`data/streams`): the first 15 % are three sources by time. Bicycles (Bikeshare.csv of the package ISLP): whether
    more are out than in the median hour of the 30 days before; February, March and April are sources. Rats, hotel and
    mpls (`data/tables`): their own domains, in the order of the files. The first `rows` rows stream. "Last label"
    repeats the newest label that is known, "transition table" says what most often followed it at this delay. Peers
    have their packages' defaults, learned the sources before, and see categories one-hot and numbers standardised by
    the sources; a run that met its limit of CPU seconds is shown with its rows. Kappa temporal: 1 - mistakes over those
    of the last label, below zero where that is enough."""
    if quick:
        names, who, delays, rows = "bikes", f"hedgerow;{RULES[0]}", "0,10", 60
    if quick and find_spec("ISLP") is None:
        names = "weather"
    for name in names.split(","):
        for one in who.split(";"):
            package = "lightgbm" if one.startswith("LightGBM") else PEERS.get(one, ("hedgerow",))[0]
            for delay in delays.split(",") if find_spec(package) is not None else ():
                figures = child(cell, name, one, int(delay), rows, limit, env=ENVIRONMENT)
                setting = {"stream": name, "who": one, "delay": int(delay)}
                yield Row(setting, figures)


def streams_page(lines: list[Line]) -> Iterator[str]:
    """Mistakes of everybody, a table a delay; runs that met their limit in brackets."""
    grid = {tuple(line["setting"].values()): line["figures"] for line in lines}
    names, who, delays = (
        dict.fromkeys(line["setting"][key] for line in lines) for key in ("stream", "who", "delay")
    )
    for delay in sorted(delays):
        yield from ["", f"### Mistakes %, labels {delay} rows late", ""]
        shown = []
        for one in who:
            cells = [grid.get((name, one, delay)) for name in names]
            shown.append([one, *(_shown(figures) for figures in cells)])
        yield from Table("", "", ["", *names], shown).markdown().splitlines()


def _shown(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return ""
    text = f"{figures['mistakes %']:.2f}"
    return text if figures["finished"] else f"({text} of {figures['rows']:,})"
