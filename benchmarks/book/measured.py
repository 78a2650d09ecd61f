"""The measured tables of the pages in PAGES, from rows that are in the repository; called by fold.py.

A block of the page between `<!-- measured: NAME -->` and `<!-- end -->` is one of the tables below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median

from book import streams
from book.table import Row, mistakes, table

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", flags=re.S)
PAGES = ("which.md", "streams.md", "tables.md")

OFFICE = ("amazon", "caltech", "dslr", "webcam")
COLUMN_WAYS = ("common", "shared", "table", "all")
FACES = ("PIE1", "PIE2", "PIE3", "PIE4", "PIE5")
SHOWN = ("hedgerow", "hedgerow, small", "hedgerow-linear", "oddm-fixed", "oddm", "paio", "homotl-2", "homotlms", "pa")


def fill(page: Path, out: Path) -> Path:
    """The page with its blocks made anew."""
    text = page.read_text(encoding="utf-8")
    out.write_text(BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + "\n" + found[3], text), encoding="utf-8")
    return out


def rows_of(path: str) -> list[Row]:
    with (ROOT / path).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def average(rows: list[Row], method: str, tasks: Iterable[str], value: Callable[[Row], float]) -> str:
    """Mean over the tasks of the mean over their runs; a dash where a task was not run."""
    found = [[value(row) for row in rows if (row["task"], row["method"]) == (task, method)] for task in tasks]
    return f"{mean(map(mean, found)):.1f}" if all(found) else "–"


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


def columns() -> str:
    """Columns that not everyone has: cut away, or taken as they are; all rows and, behind the bar, the first fifty."""
    found = json.loads((ROOT / "benchmarks/columns.json").read_text(encoding="utf-8"))["means"]
    sets = {"office-caltech": "Office+Caltech", "amazon-reviews": "Amazon reviews"}
    settings = {"thirds": "a third each", "and own": "and a third that none has"}
    lines = []
    for name, means in found.items():
        data, setting, _ = name.split(" / ")
        cells = ["{:.1f} \\| {:.1f}".format(*means[way]) if way in means else "" for way in COLUMN_WAYS]
        lines.append([f"{sets[data]}, {settings[setting]}", *cells, means["table better than common"]])
    ways = ("cut to the common columns", "target cut to what a source has", "as they are", "nothing hidden")
    return table(("set, and what the sources lack", *ways, "as they are is better than common"), lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "methods": methods,
    "webcam": streams.webcam,
    "sizes": sizes,
    "warmup": warmup,
    "troubles": streams.troubles,
    "families": streams.families,
    "useless": streams.useless,
    "columns": columns,
}
