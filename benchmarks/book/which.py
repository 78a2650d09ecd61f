"""The measured figures of docs/which.md, from rows that are in the repository; called by fold.py.

A block of the page between `<!-- measured: NAME -->` and `<!-- end -->` is one of the tables below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", flags=re.S)
Row = dict[str, Any]

OFFICE = ("amazon", "caltech", "dslr", "webcam")
FACES = ("PIE1", "PIE2", "PIE3", "PIE4", "PIE5")
SHOWN = ("hedgerow", "hedgerow, small", "hedgerow-linear", "oddm-fixed", "oddm", "paio", "homotl-2", "homotlms", "pa")
STREAMS = {  # points of a study on Webcam: what the row of the table is called
    ("delay", "0"): "every label at once",
    ("delay", "50"): "labels 50 rows late",
    ("missing", "90 %"): "9 of 10 labels missing",
    ("batches", "50"): "labels in batches of 50",
    ("drift", "abrupt"): "the target changes abruptly",
}


def fill(page: Path, out: Path) -> Path:
    """The page with its blocks made anew."""
    text = page.read_text(encoding="utf-8")
    out.write_text(BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + "\n" + found[3], text), encoding="utf-8")
    return out


def rows_of(path: str) -> list[Row]:
    with (ROOT / path).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(header)
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def average(rows: list[Row], method: str, tasks: Iterable[str], value: Callable[[Row], float]) -> str:
    """Mean over the tasks of the mean over their runs; a dash where a task was not run."""
    found = [[value(row) for row in rows if (row["task"], row["method"]) == (task, method)] for task in tasks]
    return f"{mean(map(mean, found)):.1f}" if all(found) else "–"


def mistakes(row: Row) -> float:
    return 100 * row["mistakes"] / row["n"]


def methods() -> str:
    """Mistakes on three families, in the first 50 labels, calibration, and time beside our own learner's."""
    rows, reviews = rows_of("benchmarks/own_learner/results.jsonl"), rows_of("benchmarks/own_learner/others.jsonl")
    products = sorted({row["task"] for row in reviews})
    time = {m: median(_seconds(rows, m)) for m in SHOWN}
    every = (*OFFICE, *FACES)
    lines = [
        [
            f"`{method}`" if "," not in method else '`hedgerow`, `size="small"`',
            average(rows, method, OFFICE, mistakes),
            average(rows, method, FACES, mistakes),
            average(reviews, method, products, mistakes),
            average(rows, method, every, lambda row: row["early"]),
            f"{mean(row['calibration'] for row in rows if row['method'] == method):.2f}",
            f"{time[method] / time['hedgerow']:.2f}",
        ]
        for method in SHOWN
    ]
    head = ("method", "cameras, %", "faces, %", "reviews, %", "in the first 50", "calibration error", "time a row")
    return table(head, lines)


def _seconds(rows: list[Row], method: str) -> list[float]:
    return [row["seconds_online"] / row["n"] for row in rows if row["method"] == method]


def streams() -> str:
    """Mistakes on Webcam when labels are late, missing, in batches, and when the target changes."""
    rows = rows_of("benchmarks/streams/office-caltech-webcam/results.jsonl")
    names = list(dict.fromkeys(row["method"] for row in rows))
    ordered = [name for name in SHOWN if name in names]
    lines = []
    for (group, point), words in STREAMS.items():
        here = [row for row in rows if (row["group"], row["variant"]) == (group, point)]
        found = {name: [mistakes(row) for row in here if row["method"] == name] for name in names}
        lines.append([words, *(f"{mean(found[m]):.1f}" if found[m] else "–" for m in ordered)])
    return table(("Webcam, mistakes in %", *(f"`{name}`" for name in ordered)), lines)


def sizes() -> str:
    """What a model takes in a file and a key of a fleet on disk and in memory."""
    rows = [row for row in rows_of("benchmarks/fleet/measured.jsonl") if row["part"] == "bytes"]
    lines = [
        [
            f"`{row['method']}`, {row['features']} features",
            *(f"{row[k] / 1000:,.0f}" for k in ("file", "state", "held")),
        ]
        for row in rows
    ]
    return table(("after 20 labels, kB", "a model of its own", "a key of a fleet, on disk", "in memory"), lines)


def warmup() -> str:
    """What unlabelled rows in advance are worth to a key, in mistakes."""
    rows = rows_of("benchmarks/fleet/warmup.jsonl")
    lines = [
        [f"{row['task']}, `{row['method']}`", *(f"{row[name]:.1f}" for name in ("none", "warm", "own"))] for row in rows
    ]
    head = ("mistakes, %", "key without warm-up", "key with it", "a model fitted with it")
    return table(head, lines)


BLOCKS: dict[str, Callable[[], str]] = {"methods": methods, "streams": streams, "sizes": sizes, "warmup": warmup}
