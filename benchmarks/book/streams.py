"""The measured tables of docs/streams.md and docs/which.md about streams, from the book's rows of the studies."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from book.rows import rows_in
from book.table import Row, mistakes, table

FAMILIES = ("study-office-caltech", "study-pie", "study-amazon-reviews", "study-digits")
CAMERAS, WEBCAM = "study-office-caltech", "office-caltech/webcam"
SHOWN = ("hedgerow", "hedgerow-linear", "oddm")

COSTS = {  # what the row of a table is called: the point of a study
    "every label at once": ("delay", "0"),
    "labels 50 rows late": ("delay", "50"),
    "9 of 10 labels missing": ("missing", "90 %"),
    "99 of 100 labels missing": ("missing", "99 %"),
    "labels in batches of 50": ("batches", "50"),
    "half of the classes only in the target": ("late-classes", "only in the target: 50 %"),
    "the target changes abruptly": ("drift", "abrupt"),
}
TROUBLES: dict[str, tuple[str, Sequence[str]]] = {
    "labels late by 0, 10, 50, 200": ("delay", ("0", "10", "50", "200")),
    "labels missing: 0, 50, 90, 99 %": ("missing", ("0 %", "50 %", "90 %", "99 %")),
    "batches of 1, 10, 50, 200": ("batches", ("1", "10", "50", "200")),
    "classes only in the target: 0, 20, 50 %": (
        "late-classes",
        ("0 %", "only in the target: 20 %", "", "only in the target: 50 %"),
    ),
    "classes missing from each source: 0, 20, 50, 80 %": ("missing-classes", ("0 %", "20 %", "50 %", "80 %")),
    "a target that changes: steady, abrupt, recurring, renamed": (
        "drift",
        ("steady", "abrupt", "recurring", "renamed"),
    ),
    "rare classes: 100, 30, 10, 3 %": ("imbalance", ("100 %", "30 %", "10 %", "3 %")),
}
USELESS = ("no sources", "labels shuffled: 100 %", "classes exchanged: 100 %", "other classes: 100 %")


def webcam() -> str:
    """Mistakes on Webcam when labels are late, missing, in batches, and when the target changes."""
    rows = rows_in(CAMERAS)
    lines = [[words, *(_share(rows, WEBCAM, m, *point) for m in SHOWN)] for words, point in COSTS.items()]
    return table(("Webcam, mistakes in %", *(f"`{name}`" for name in SHOWN)), lines)


def troubles() -> str:
    """Every trouble on Webcam at its strengths."""
    rows = rows_in(CAMERAS)
    lines = [
        [words, *(_cell(rows, WEBCAM, study, point) for point in points)] for words, (study, points) in TROUBLES.items()
    ]
    return table(("trouble", "none", "some", "more", "most"), lines)


def families() -> str:
    """What some troubles cost on the target of each family."""
    found = [(task, rows) for name in FAMILIES for rows in [rows_in(name)] for task in _targets(rows, "delay")]
    lines = [[words, *(_cell(rows, task, *point) for task, rows in found)] for words, point in COSTS.items()]
    return table(("mistakes, %", *(task for task, _ in found)), lines)


def useless() -> str:
    """Our learner without sources, and with sources that are of no use."""
    lines = [
        [task, *(_share(rows, task, SHOWN[0], "sources", point) for point in USELESS)]
        for name in FAMILIES
        for rows in [rows_in(name)]
        for task in _targets(rows, "sources")
    ]
    return table(("mistakes, %", "no sources", "every label shuffled", "classes exchanged", "other classes"), lines)


def _cell(rows: list[Row], task: str, study: str, point: str) -> str:
    """Our learner and, in brackets, its linear form and the paper's method; empty where nothing was run."""
    ours, *others = (_share(rows, task, method, study, point) for method in SHOWN)
    return "" if ours == "–" else f"{ours} ({', '.join(others)})"


def _targets(rows: list[Row], study: str) -> list[str]:
    return sorted({row["task"] for row in rows if row["group"] == study})


def _share(rows: list[Row], task: str, method: str, study: str, point: str) -> str:
    """Mean over the orders; a dash where nothing was run."""
    wanted = (task, method, study, point)
    found = [mistakes(row) for row in rows if (row["task"], row["method"], row["group"], row["variant"]) == wanted]
    return f"{mean(found):.1f}" if found else "–"
