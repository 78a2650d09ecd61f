"""bench/RESULTS.md from the rows: a section a benchmark, its text the docstring of the function that measures it."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from statistics import mean, stdev
from typing import Any

from bench.record import ROOT, latest, rows
from hedgerow.comparison.tables import Table

Line = dict[str, Any]
COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq}
BENCHMARKS = {  # name: the module that has the function, and the title of its section
    "replay": ("speed", "ODDM in one call"),
    "live": ("speed", "ODDM one instance at a time"),
    "plain": ("speed", "The default method against plain NumPy"),
    "stops": ("speed", "The longest stop"),
    "against": ("speed", "Against another commit"),
    "pa": ("speed", "PA against other packages"),
    "jda": ("speed", "The offline stage"),
    "roofline": ("speed", "The machine's limits"),
    "startup": ("speed", "Start-up"),
    "run": ("service", "`hedgerow run` beside the library"),
    "load": ("service", "The service under load"),
    "load_against": ("service", "The service against another commit"),
    "fleet": ("fleet", "A fleet"),
    "fleet_against": ("fleet", "A fleet against another commit"),
    "warmup": ("fleet", "What warm-up rows are worth to a key"),
    "spark": ("spark", "Streams of keys on Spark"),
    "sources": ("sources", "Sources larger than memory"),
    "nine": ("nine", "Our learner against the paper's methods"),
    "peers": ("peers", "Our learner against other packages"),
    "tables": ("tables", "Tables"),
    "table_cost": ("tables", "What trees cost"),
    "small": ("tables", "Small tables of numbers"),
    "numbers": ("numbers", "Numbers"),
    "streams": ("streams", "Streams in their own order"),
    "torture": ("", "Torture"),
}
BY_NAME = (
    "peers",
    "tables",
    "table_cost",
    "numbers",
    "streams",
    "torture",
)  # what runs elsewhere (`make bench-peers`, `make torture`), or only when it is named


def function(name: str) -> Callable[..., Iterator[Any]]:
    """What measures a benchmark: yields rows."""
    module = BENCHMARKS[name][0]
    if not module:
        raise SystemExit(f"{name} is measured by `make {name}`")
    return getattr(import_module(f"bench.{module}"), name)  # type: ignore[no-any-return]


def write() -> None:
    """The page."""
    text = [
        "# Measured",
        "",
        "Written by `python -m bench --pages` from `bench/rows`; `python -m bench NAME` measures anew. A bold figure",
        "misses its goal, which stands in the head of its column or behind the figure. Rows of commits up to 72c42ab",
        "were measured by the commands that these have replaced.",
    ]
    for name, (_, title) in BENCHMARKS.items():
        lines = latest(rows(name))
        if lines:
            text += ["", f"## {title}", "", *section(name, lines)]
    (ROOT / "bench" / "RESULTS.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def section(name: str, lines: list[Line]) -> Iterator[str]:
    """What was measured, how, where, and the figures."""
    if BENCHMARKS[name][0]:
        yield from [*(inspect.getdoc(function(name)) or "").splitlines(), ""]
    module = import_module(f"bench.{BENCHMARKS[name][0]}") if BENCHMARKS[name][0] else None
    yield from getattr(module, f"{name}_page", table)(lines)
    yield ""
    commands = dict.fromkeys(line["command"] for line in lines)
    loads = [line["load"] for line in lines if line["load"] is not None]
    load = f"; load {min(loads)} to {max(loads)}" if loads else ""
    commits = ", ".join(dict.fromkeys(line["commit"] for line in lines))
    yield f"`{'`, `'.join(commands)}` at {commits}{load}; {'; '.join(dict.fromkeys(x['machine'] for x in lines))}."


def table(lines: list[Line]) -> Iterator[str]:
    """A line a row of the benchmark: what was run, then its figures; in one cell if most have figures of their own."""
    settings = list(dict.fromkeys(key for line in lines for key in line["setting"]))
    figures = list(dict.fromkeys(key for line in lines for key in line["figures"]))
    goals = {key: {line.get("goals", {}).get(key, "") for line in lines} for key in figures}
    one = {key: next(iter(some)) for key, some in goals.items() if len(some) == 1}
    sparse = 2 * sum(len(line["figures"]) for line in lines) < len(figures) * len(lines)
    heads = (
        ["measured"]
        if sparse
        else [f"{key} ({one[key]})" if one.get(key) else key for key in figures]
    )
    rows = []
    for line in lines:
        shown = []
        for key, value in (
            line["figures"].items()
            if sparse
            else ((key, line["figures"].get(key)) for key in figures)
        ):
            goal = line.get("goals", {}).get(key, "")
            text = "" if value is None else number(value)
            text = (text if kept(value, goal) else f"**{text}**") + (
                f" ({goal})" if goal and key not in one else ""
            )
            shown.append(f"{key}: {text}" if sparse else text)
        setting = [number(line["setting"].get(key, "")) for key in settings]
        rows.append([*setting, *(["; ".join(shown)] if sparse else shown)])
    yield from Table("", "", [*settings, *heads], rows).markdown().splitlines()


def means(
    lines: list[Line], index: str, columns: str, figure: str, digits: int, titles: Mapping[str, str],
    averages: Mapping[str, list[str]],
) -> Iterator[str]:  # fmt: skip
    """Means of one figure with deviations over what is left of the setting; at the end means over some columns."""
    heads = list(dict.fromkeys(line["setting"][columns] for line in lines))
    heads.sort(key=lambda head: [*titles, head].index(head))
    rows = []
    for name in dict.fromkeys(line["setting"][index] for line in lines):
        cells: dict[str, list[float]] = {head: [] for head in heads}
        for line in lines:
            if line["setting"][index] == name and line["figures"].get(figure) is not None:
                cells[line["setting"][columns]].append(line["figures"][figure])
        shown = [
            f"{mean(c):.{digits}f}" + (f" ± {stdev(c):.{digits}f}" if len(c) > 1 else "")
            if c
            else ""
            for c in cells.values()
        ]
        for group in averages.values():
            whole = [mean(cells[head]) for head in group if cells.get(head)]
            shown.append(f"{mean(whole):.{digits}f}" if len(whole) == len(group) else "")
        rows.append([name, *shown])
    header = [index, *(titles.get(head, head) for head in heads), *averages]
    yield from Table("", "", header, rows).markdown().splitlines()


def kept(value: Any, goal: str) -> bool:
    """Whether a figure reaches its goal, if there is one.

    >>> kept(1.2, "<= 1.05"), kept(1.2, "")
    (False, True)
    """
    sign, _, bound = goal.partition(" ")
    return not goal or value is None or bool(COMPARE[sign](value, float(bound)))


def number(value: Any) -> str:
    """Three digits are enough.

    >>> number(31245.6), number(0.01234), number("PIE"), number(7)
    ('31,246', '0.0123', 'PIE', '7')
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
