"""bench/RESULTS.md from the rows: a section a benchmark, its text the docstring of the function that measures it."""

from __future__ import annotations

import inspect
import operator
import re
from collections import Counter
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
    "startup": ("speed", "Start-up"),
    "run": ("service", "`hedgerow run` beside the library"),
    "load": ("service", "The service under load"),
    "load_against": ("service", "The service against another commit"),
    "fleet": ("fleet", "A fleet"),
    "fleet_against": ("fleet", "A fleet against another commit"),
    "warmup": ("fleet", "What warm-up rows are worth to a key"),
    "join": ("join", "Keys that teach keys"),
    "spark": ("spark", "Streams of keys on Spark"),
    "sources": ("sources", "Sources larger than memory"),
    "nine": ("nine", "Our learner against the paper's methods"),
    "peers": ("peers", "Our learner against other packages"),
    "tables": ("tables", "Tables"),
    "rare": ("tables", "Rare classes"),
    "check": ("tables", "The check of tables"),
    "table_cost": ("tables", "What trees cost"),
    "models": ("join_models", "Without sources, and with models of one's own"),
    "numbers": ("numbers", "Numbers"),
    "ablation": ("ablation", "What each part of our learner is worth"),
    "streams": ("streams", "Streams in their own order"),
    "ahead": ("ahead", "Numbers some rows ahead"),
    "torture": ("", "Torture"),
}
ON_A_PAGE = ("ablation",)  # whose table stands in docs/learner.md
BY_NAME = (
    "peers",
    "tables",
    "rare",
    "table_cost",
    "models",
    "numbers",
    "streams",
    "join",
    "ahead",
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
    known = {name: latest(rows(name)) for name in BENCHMARKS}
    machines = dict.fromkeys(line["machine"] for lines in known.values() for line in lines)
    text = [
        "# Measured",
        "",
        "Written by `python -m bench --pages` from `bench/rows`; `python -m bench NAME` measures anew. A bold figure",
        "misses its goal, which stands in the head of its column or behind the figure. Under each table: the command,",
        f"the commits at which its rows were measured, the machine's load. Machine: {'; '.join(machines)}.",
    ]
    for name, (_, title) in BENCHMARKS.items():
        if known[name] and name not in ON_A_PAGE:
            text += ["", f"## {title}", "", *section(name, known[name])]
    (ROOT / "bench" / "RESULTS.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def section(name: str, lines: list[Line]) -> Iterator[str]:
    """What was measured, how, and the figures."""
    pages: Mapping[str, Any] = {"torture_page": torture_page}
    if BENCHMARKS[name][0]:
        yield from (inspect.getdoc(function(name)) or "").splitlines()
        pages = vars(import_module(f"bench.{BENCHMARKS[name][0]}"))
    yield from pages.get(f"{name}_page", tables)(lines)
    commands = dict.fromkeys(line["command"] for line in lines)
    loads = [line["load"] for line in lines if line["load"] is not None]
    load = f"; load {min(loads)} to {max(loads)}" if loads else ""
    commits = ", ".join(dict.fromkeys(line["commit"] for line in lines))
    yield from ["", f"`{'`, `'.join(commands)}` at {commits}{load}."]


def torture_page(lines: list[Line]) -> Iterator[str]:
    """A line a test: what its forms did, counted together, without their parts and seconds."""
    counted: dict[str, dict[str, float]] = {}
    for line in lines:
        test, _, form = line["setting"]["what"].removeprefix("test_").partition("[")
        figures = counted.setdefault(test.replace("_", " "), {})
        figures["forms"] = figures.get("forms", 0) + bool(form)
        for key, value in line["figures"].items():
            if key != "seconds" and ", " not in key:
                figures[key] = figures.get(key, 0) + value
    shown = (
        [test, "; ".join(f"{key}: {number(value)}" for key, value in figures.items() if value)]
        for test, figures in counted.items()
    )
    yield from Table("", "", ["test", "done"], shown).markdown().splitlines()


def tables(lines: list[Line]) -> Iterator[str]:
    """One table; one for each kind of row if most figures belong to a few of the rows."""
    names = dict.fromkeys(key for line in lines for key in line["figures"])
    kinds: dict[tuple[str, ...], list[Line]] = {}
    if 2 * sum(len(line["figures"]) for line in lines) <= len(names) * len(lines):
        for line in lines:
            kinds.setdefault(tuple(line["figures"]), []).append(line)
    for some in kinds.values() or [lines]:
        yield from ["", *table(some)]


def table(lines: list[Line]) -> Iterator[str]:
    """A line a row of the benchmark: what was run, then its figures."""
    settings = list(dict.fromkeys(key for line in lines for key in line["setting"]))
    figures = list(dict.fromkeys(key for line in lines for key in line["figures"]))
    goals = {key: {line.get("goals", {}).get(key, "") for line in lines} for key in figures}
    one = {key: next(iter(some)) for key, some in goals.items() if len(some) == 1}
    heads = [f"{key} ({one[key]})" if one.get(key) else key for key in figures]
    rows = []
    for line in lines:
        shown = []
        for key in figures:
            value = line["figures"].get(key)
            goal = line.get("goals", {}).get(key, "")
            text = "" if value is None else number(value)
            text = text if kept(value, goal) else f"**{text}**"
            shown.append(f"{text} ({goal})" if goal and key not in one else text)
        rows.append([*(number(line["setting"].get(key, "")) for key in settings), *shown])
    yield from Table("", "", [*settings, *heads], rows).markdown().splitlines()


def means(
    lines: list[Line], index: str, columns: str, figure: str, digits: int, titles: Mapping[str, str],
    averages: Mapping[str, list[str]],
) -> Iterator[str]:  # fmt: skip
    """Means of one figure over what is left of the setting; means over some columns, the mean deviation, the runs."""
    heads = list(dict.fromkeys(line["setting"][columns] for line in lines))
    heads.sort(key=lambda head: [*titles, head].index(head))
    rows = []
    for name in dict.fromkeys(line["setting"][index] for line in lines):
        cells: dict[str, list[float]] = {head: [] for head in heads}
        for line in lines:
            if line["setting"][index] == name and line["figures"].get(figure) is not None:
                cells[line["setting"][columns]].append(line["figures"][figure])
        shown = [fixed(mean(c), digits) if c else "" for c in cells.values()]
        for group in averages.values():
            whole = [mean(cells[head]) for head in group if cells.get(head)]
            shown.append(fixed(mean(whole), digits) if len(whole) == len(group) else "")
        spread = [stdev(c) for c in cells.values() if len(c) > 1]
        shown.append(fixed(mean(spread), digits) if spread else "")
        rows.append([name, *shown, sum(map(len, cells.values()))])
    header = [index, *(titles.get(head, head) for head in heads), *averages, "±"]
    yield from _counted(header, rows)


def _counted(header: list[str], rows: list[list[Any]]) -> Iterator[str]:
    """A table whose last cells, the runs of a line, are shown if they differ."""
    if len({row[-1] for row in rows}) == 1:
        rows = [row[:-1] for row in rows]
    else:
        header = [*header, "runs"]
    yield from Table("", "", header, rows).markdown().splitlines()


def summary(
    lines: list[Line], index: str, columns: str, figures: Mapping[str, int],
    over: Callable[[list[float]], float] = mean,
) -> Iterator[str]:  # fmt: skip
    """A line each, with several figures: means over the columns of the means of what is left of the setting."""
    rows = []
    for name, count in Counter(line["setting"][index] for line in lines).items():
        shown = []
        for figure, digits in figures.items():
            cells: dict[str, list[float]] = {}
            for line in lines:
                if line["setting"][index] == name and line["figures"].get(figure) is not None:
                    cells.setdefault(line["setting"][columns], []).append(line["figures"][figure])
            found = [mean(values) for values in cells.values()]
            shown.append(fixed(over(found), digits) if found else "")
        rows.append([name, *shown, count])
    yield from _counted([index, *figures], rows)


def best_variants(lines: list[Line], figure: str) -> list[Line]:
    """Of each peer the variant with the lowest mean figure ("HGB", "HGB x 5", "HGB + domain" are one); all of ours."""
    means: dict[str, list[float]] = {}
    for line in lines:
        means.setdefault(line["setting"]["who"], []).append(line["figures"][figure])
    best: dict[str, str] = {}
    for who in sorted(means, key=lambda who: mean(means[who])):
        best.setdefault(
            who if who.startswith("hedgerow") else re.split(r" x | \+ |, ", who)[0], who
        )
    return [line for line in lines if line["setting"]["who"] in best.values()]


def kept(value: Any, goal: str) -> bool:
    """Whether a figure reaches its goal, if there is one.

    >>> kept(1.2, "<= 1.05"), kept(1.2, "")
    (False, True)
    """
    sign, _, bound = goal.partition(" ")
    return not goal or value is None or bool(COMPARE[sign](value, float(bound)))


def fixed(value: float, digits: int) -> str:
    """So many digits after the point; of a number that has left all bounds only its size.

    >>> fixed(0.52149, 3), fixed(7.5e11, 3)
    ('0.521', '8e+11')
    """
    return f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.0e}"


def number(value: Any) -> str:
    """Three digits are enough.

    >>> number(31245.6), number(0.01234), number("PIE"), number(7)
    ('31,246', '0.0123', 'PIE', '7')
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
