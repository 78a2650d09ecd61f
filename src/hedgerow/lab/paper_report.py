"""The report of `hedgerow paper`: every table and figure of the paper, the published numbers beside ours.

A section is a function from the rows to what stands in it (`SECTIONS`); what was not run says how to get it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import require
from hedgerow.lab import paper, theory
from hedgerow.lab import report as pages
from hedgerow.lab.figures import Dots, Line, Panel, critical_difference, dots, draw
from hedgerow.lab.paper import FAMILIES, PUBLISHED, RULES, TASKS, PaperRuns, family_of, far, judged
from hedgerow.lab.report import Part, Table, Value, chance, count, figure, lowest, paragraph, signed, table, text
from hedgerow.lab.rows import ENOUGH_ORDERS, Cell, Say, curves
from hedgerow.lab.runner import commands_given
from hedgerow.lab.stats import ALPHA, Ranking, against, friedman
from hedgerow.methods import BASELINES


def marked(cells: Sequence[Cell | None]) -> list[Value]:
    """Cells of a row, the lowest marked."""
    return lowest([cell and cell.mean for cell in cells], cells, ".2f")


# -- sections ---------------------------------------------------------------------------------------------------


def mistakes(runs: PaperRuns) -> Table:
    """The paper's table: mean and spread in each cell, the published numbers below them, the average over the tasks."""
    tasks, methods = runs.tasks(), runs.methods()
    rows: list[list[object]] = []
    records = []
    for task in tasks:
        cells = [runs.at(task, m) for m in methods]
        rows.append([TASKS[task]])
        for method, cell, value in zip(methods, cells, marked(cells), strict=True):
            theirs = PUBLISHED.get((task, method)) if cell else None
            away = cell is not None and far(cell, task, method)
            marks = f"{'far ' * away}{value.mark}".strip()
            rows[-1].append(replace(value, below=str(theirs or ""), mark=marks))
            if cell:
                records.append({
                    "task": task, "method": method, "mean": round(cell.mean, 4), "sd_orders": round(cell.sd, 4),
                    "sd_splits": round(cell.between, 4) if cell.splits > 1 else None, "runs": cell.orders,
                    "splits": cell.splits, "published_mean": theirs and theirs.mean,
                    "published_sd": theirs and theirs.sd, "difference": theirs and round(cell.mean - theirs.mean, 4),
                    "marked": away,
                })  # fmt: skip
    if len(tasks) > 1:
        rows.append(["Average"])
        for method in methods:
            published = [PUBLISHED[task, method].mean for task in tasks if (task, method) in PUBLISHED]
            ours = float(runs.means("table", tasks, method).mean())
            below = f"{np.mean(published):.2f}" if published else ""
            rows[-1].append(Value(f"{ours:.2f}", below) if ours == ours else "–")
    every = runs.cells("table")
    counts = " or ".join(map(str, sorted({c.orders // c.splits for c in every})))
    return table(
        "mistakes", runs.header(methods), rows, records, over=f"{counts} order{'s' * (counts != '1')} of the stream",
        splits=max(c.splits for c in every), published=paper.PUBLISHED_ORDERS, judged=any(map(judged, every)),
        enough=ENOUGH_ORDERS,
    )  # fmt: skip


def _table_section(runs: PaperRuns) -> Iterator[Part]:
    yield mistakes(runs)
    tasks, agreement, panels = runs.tasks(), [], {}
    for method in runs.methods():
        cells = [(runs.at(task, method), PUBLISHED.get((task, method)), TASKS[task]) for task in tasks]
        misses = [(cell.mean - their.mean, title) for cell, their, title in cells if cell and their]
        if misses:
            worst, where = max(misses, key=lambda pair: abs(pair[0]))
            mean = np.mean([abs(miss) for miss, _ in misses])
            off = f"{mean:.2f} points from the published means on average, most on {where} ({signed(worst)})"
            one = f"{signed(worst)} points from the published mean on {where}"
            agreement.append(f"{runs.titles[method]}: {off if len(misses) > 1 else one}.")
            both = np.array([[(c.mean, c.spread) if c else (np.nan, 0.0) for c in pair[:2]] for pair in cells])
            ours, theirs = both.transpose(1, 2, 0)
            panels[runs.titles[method]] = [
                Dots("ours", 5, ours[0], ours[1]),
                Dots("published", 0, theirs[0], theirs[1], hollow=True),
            ]
    if agreement:
        size = (2.3, 1.0 + 0.24 * len(tasks))
        drawn = dots(panels, [TASKS[t] for t in tasks], "mistakes, %", columns=4, size=size, step=0.34, line=False)
        yield figure("agreement", drawn)
        yield agreement


ALIKE = 0.3  # points: a switch that comes within this of the best one explains a cell as well
HOMOTL = ("homotl-1", "homotl-2")
UNKNOWN_ORDER = ("paio", "homotlms", *HOMOTL)


def switches(runs: PaperRuns, task: str, method: str, cell: Cell) -> list[tuple[str, float]]:
    """Every switch of the ablation and the cell's distance from the published mean with it, the closest first."""
    miss = cell.mean - PUBLISHED[task, method].mean
    changes = ((variant, runs.change(task, method, variant)) for variant in runs.variants("ablation", method))
    return sorted(((v, miss + change) for v, change in changes if change == change), key=lambda pair: abs(pair[1]))


def explain(runs: PaperRuns, task: str, method: str, cell: Cell) -> str:
    """Sentences on a marked cell: how far off it is, and which single switch, if any was run, brings it closest."""
    theirs = PUBLISHED[task, method]
    miss, room = cell.mean - theirs.mean, cell.spread + theirs.sd
    causes = ["an unknown definition for several classes"] if method in HOMOTL else []
    causes += ["pixels that went through JPEG"] if family_of(task) == "pie" else []
    causes += ["an unknown order of the source rows"] if method in UNKNOWN_ORDER else []
    unproved = f"Possible, not shown: {', '.join(causes)}." if causes else "No cause is known."
    words = {"method": runs.titles[method], "task": TASKS[task]}
    start = text("far-cell", **words, ours=cell.mean, paper=theirs.mean, room=room)
    tried = switches(runs, task, method, cell)
    if not tried:
        return f"{start} No single switch was tried on it. {unproved}"
    best, left = tried[0]
    inside, cause = abs(left) <= room, f"None of the {len(tried)} single switches brings it closer."
    if abs(left) < abs(miss):
        others = [f"{v} ({signed(m)})" for v, m in tried[1:] if abs(m) <= min(abs(left) + ALIKE, abs(miss))]
        cause = text(
            "closest-switch", tried=len(tried), best=best, mean=theirs.mean + left, left=left, inside=inside,
            others="; ".join(others[:3]),
        )  # fmt: skip
    return paragraph([start, cause, "" if inside else unproved])


def causes(runs: PaperRuns) -> Table | None:
    """Each marked cell's distance from the published mean under each single switch; None if there is none."""
    rows, records = [], []
    for task, method, cell in runs.far_cells():
        tried, miss = switches(runs, task, method, cell), cell.mean - PUBLISHED[task, method].mean
        if tried:
            moves = [f"{variant} {signed(left)}" for variant, left in tried]
            more = Value("; ".join(moves[1:4]), mark="words")
            rows.append([TASKS[task], runs.titles[method], signed(miss), moves[0], more])
            shared = {"task": task, "method": method, "difference": round(miss, 4)}
            records += [shared | {"switch": v, "difference_with_switch": round(left, 4)} for v, left in tried]
    header = ["task", "method", "difference", "closest switch", "next"]
    return table("differences", header, rows, records) if rows else None


def ablation(runs: PaperRuns, method: str) -> Table:
    """What each single switch does to each task, in points against the table."""
    tasks, variants = runs.tasks("ablation"), runs.variants("ablation", method)
    changes = {variant: [runs.change(task, method, variant) for task in tasks] for variant in variants}
    rows = [[variant, *map(signed, each), signed(float(np.mean(each)))] for variant, each in changes.items()]
    records = [
        {"method": method, "variant": variant, "task": task, "change": round(change, 4)}
        for variant, each in changes.items()
        for task, change in zip(tasks, each, strict=True)
    ]
    header = ["switch", *(TASKS[task] for task in tasks), "mean"]
    name, title = f"ablation-{method}", runs.titles[method]
    return table("ablation", header, rows, records, name=name, folded=True, method=title)


def definitions(runs: PaperRuns, method: str) -> tuple[str, Table] | None:
    """Each definition of HomOTL-I or -II against the published numbers, the closest first, and which one that is."""
    tasks = [task for task in runs.tasks("definitions") if (task, method) in PUBLISHED]
    theirs = np.array([PUBLISHED[task, method].mean for task in tasks])
    misses = {v: runs.means("definitions", tasks, method, v) - theirs for v in runs.variants("definitions", method)}
    ranked = sorted(
        ((v, each) for v, each in misses.items() if len(each) and np.isfinite(each).all()),
        key=lambda pair: float(np.abs(pair[1]).mean()),
    )
    if not ranked:
        return None
    variant, best = ranked[0]
    worst = int(np.argmax(np.abs(best)))
    sentence = text(
        "closest-definition", method=runs.titles[method], tried=len(ranked), best=variant,
        tasks=count(len(tasks), "task"), mean=np.mean(np.abs(best)), worst=TASKS[tasks[worst]], miss=best[worst],
    )  # fmt: skip
    rows = [[v, *map(signed, each), f"{np.abs(each).mean():.2f}", signed(max(each, key=abs))] for v, each in ranked]
    header = ["definition", *(TASKS[task] for task in tasks), "mean miss", "largest"]
    return sentence, table("definitions", header, rows, name=f"definitions-{method}", method=runs.titles[method])


def _differences(runs: PaperRuns) -> Iterator[Part]:
    away, methods = runs.far_cells(), set(runs.methods())
    if away:
        cells = "1 cell differs" if len(away) == 1 else f"{len(away)} cells differ"
        yield f"{cells} from the published mean by more than both deviations together."
        yield [explain(runs, *each) for each in away]
    elif not any(map(judged, runs.cells("table"))):
        yield f"Which cells differ is not judged: that takes at least {ENOUGH_ORDERS} orders of a stream."
    else:
        yield "No cell differs from the published mean by more than both deviations together."
    known = [text("pie-images")] if runs.tasks(family="pie") else []
    known += [text("source-order")] if set(UNKNOWN_ORDER) & methods else []
    known += [text("several-classes")] if set(HOMOTL) & methods else []
    if known:
        yield "Known without any run:"
        yield known
    if runs.has("ablation"):
        yield causes(runs)
        yield from (ablation(runs, method) for method in runs.methods("ablation"))
    else:
        yield _missing(runs, "ablation", "Each option switched alone, to find the causes, was not run.")
    closest = [each for method in HOMOTL if (each := definitions(runs, method))]
    if closest:
        yield [sentence for sentence, _ in closest]
        yield from (made for _, made in closest)
    else:
        yield _missing(runs, "definitions", "Other definitions of HomOTL-I and HomOTL-II were not run.")


def _missing(runs: PaperRuns, part: str, what: str) -> pages.Missing:
    """A part without rows: what it would show, and how to get it."""
    return pages.Missing(what, f"{runs.command} --what {part} --resume")


def _along(runs: PaperRuns, column: str, ylabel: str) -> list[Panel]:
    """A curve of the table's runs, a panel for each task, from the start of its stream to the end."""
    panels = []
    for task in runs.tasks():
        lines, n = [], 0
        for method in runs.methods():
            part = runs.part("table", task, method)
            n = n or (part["n"].iloc[0] if len(part) else 0)
            part = part[part[column].map(bool)] if column in part else part[:0]
            if len(part):
                name, j, at = runs.titles[method], runs.styles[method], np.array(part[f"{column}_at"].iloc[0])
                if column == "curve":
                    lines.append(Line.over(name, j, 100 * at / at[-1], curves(part)[1].T))
                else:
                    lines.append(Line.ratio(name, j, 100 * at / at[-1], part[column].to_list()))
        if lines:
            panels.append(Panel(f"{TASKS[task]}, {n} instances", lines, "share of the stream, %", ylabel, (0.0, 100.0)))
    return panels


def _stream(runs: PaperRuns) -> Iterator[Part]:
    yield figure("curves", draw(_along(runs, "curve", "mistakes so far, %")))
    if distances := _along(runs, "discrepancy", "discrepancy / its start"):
        yield figure("discrepancy", draw(distances, log="y"))


def _value_of(variant: str) -> float:
    """The number in a variant's name."""
    return float(variant.partition("=")[2])


def sensitivity(runs: PaperRuns, option: str) -> Iterator[Part]:
    """Mistakes against the values of C (a panel a task) or of T_w (a panel a method and family): figure and table."""
    group, name = f"sensitivity-{option}", option.replace("Tw", "T_w")
    if not runs.has(group):
        yield _missing(runs, group, f"The sensitivity to {name} was not run.")
        return
    values = sorted(runs.variants(group), key=_value_of)
    tasks, methods = runs.tasks(group), runs.methods(group)

    def line(task: str, method: str, name: str, style: int) -> Line:
        rates = {_value_of(v): runs.rates(group, task, method, v) for v in values if runs.cell(group, task, method, v)}
        return Line.over(name, style, list(rates), rates.values())

    if option == "C":
        of_task = {t: [line(t, m, runs.titles[m], runs.styles[m]) for m in methods] for t in tasks}
        panels = [Panel(TASKS[t], lines, "C", "mistakes, %") for t, lines in of_task.items()]
        drawn = draw(panels, log="x", sparse=False)
    else:
        families = [family for family in FAMILIES if runs.tasks(group, family)]
        panels = [
            Panel(
                f"{runs.titles[method]}, {FAMILIES[family]}",
                [line(t, method, TASKS[t], j) for j, t in enumerate(runs.tasks(group, family))],
                "labels between two updates, $T_w$", "mistakes, %",
            )
            for method in methods
            for family in families
        ]  # fmt: skip
        drawn = draw(panels, columns=len(families), size=(4.9, 3.6), names="ends", log="x", sparse=False, shared=False)
    yield figure(group, drawn)
    rows = [
        [TASKS[task], runs.titles[method], *marked(cells)]
        for task in tasks
        for method in methods
        if any(cells := [runs.cell(group, task, method, v) for v in values])
    ]
    header = ["task", "method", *values]
    yield table("sensitivity", header, rows, name=group, folded=True, option=name, orders=runs.orders(group))


# -- the effect of the refresh, the same inputs for everybody ---------------------------------------------------

RULE_WORDS = {
    "zero": "classes not seen yet at zero (the released code)",
    "skip": "classes not seen yet left out (the printed formula)",
    "shrink": "class means shrunk by n_k/(n_k + kappa)",
}
UPDATES = tuple(RULE_WORDS)
SMALL = 0.25  # points: less is called no change


def _refresh_means(runs: PaperRuns, tasks: Sequence[str]) -> dict[str, Array]:
    """The mean rates on these tasks with each rule, as given and centred."""
    variants = [label + rule for label in ("", "centred ") for rule in RULES]
    return {variant: runs.means("refresh", tasks, _refreshed(variant), variant) for variant in variants}


def _refreshed(variant: str) -> str:
    return "oddm-fixed" if variant.endswith("fixed") else "oddm"


def refresh(runs: PaperRuns) -> Iterator[Part]:
    """Does updating A help, and how much of the gain does centring alone give?"""
    if not runs.has("refresh"):
        yield _missing(runs, "refresh", "No update of A, and updates by each rule, with and without centring: not run.")
        return
    tasks, labels = runs.tasks("refresh"), {"": "as given", "centred ": "every domain centred"}
    yield [sentence for family in FAMILIES for sentence in refresh_sentences(runs, family)]
    means = _refresh_means(runs, tasks)
    names = {rule: f"unseen classes {RULES[rule].removeprefix('unseen ')}" for rule in UPDATES}
    gains = {
        title: [Dots(names[r], j, means[f"{label}fixed"] - means[label + r]) for j, r in enumerate(UPDATES, start=4)]
        for label, title in labels.items()
    }
    size = (4.1, 0.7 + 0.36 * len(tasks))
    drawn = dots(gains, [TASKS[task] for task in tasks], "points gained by updating A", columns=2, size=size)
    yield figure("gains", drawn, name="refresh")
    rows = []
    for task in tasks:
        cells = [runs.cell("refresh", task, _refreshed(variant), variant) for variant in means]
        rows.append([TASKS[task], *marked(cells[: len(RULES)]), *marked(cells[len(RULES) :])])
    header = ["task", *(f"{label}{title}" for label in ("", "centred: ") for title in RULES.values())]
    yield table("refresh", header, rows, orders=runs.orders("refresh"))


def refresh_sentences(runs: PaperRuns, family: str) -> Iterator[str]:
    """What the update and centring do on the tasks of a family that were run with every rule."""
    title, means = FAMILIES[family], _refresh_means(runs, runs.tasks("refresh", family))
    whole = np.isfinite(np.array(list(means.values()))).all(axis=0)
    if not whole.any():
        return
    means = {name: values[whole] for name, values in means.items()}
    gains = {rule: means["fixed"] - means[rule] for rule in UPDATES}
    centred = {rule: means["centred fixed"] - means[f"centred {rule}"] for rule in UPDATES}
    centring = means["fixed"] - means["centred fixed"]
    for rule in UPDATES:
        yield f"{title}: {helps(gains[rule], f'updating A with {RULE_WORDS[rule]}')}"
    yield f"{title}: {helps(centring, 'centring every domain, without any update of A,')}"
    after = ", ".join(f"{signed(-float(gain.mean()))} ({rule})" for rule, gain in centred.items())
    update, by_centring = float(gains["zero"].mean()), float(centring.mean())
    yield f"{title}: {text('after-centring', after=after, before=-update)}"
    gone = f"{max(1 - max(float(centred['zero'].mean()), 0.0) / (update or 1.0), 0.0):.0%}"
    yield f"{title}: {text('update-or-centring', update=update, small=SMALL, gone=gone, centring=by_centring)}"


def helps(gain: Array, what: str) -> str:
    """Whether something helps: over how many tasks, by how much; `gain` is in points a task, above zero is better.

    >>> helps(np.array([2.0, 1.0, -0.5]), "updating A")
    'updating A helps on 2 of 3 tasks and harms on 1; on average it lowers the rate by 0.83 points.'
    """
    mean = float(np.mean(gain))
    on_average = f"{'lowers' if mean > 0 else 'raises'} the rate by {abs(mean):.2f} points"
    on_average = "changes the rate by less than a quarter of a point" if abs(mean) <= SMALL else on_average
    better, worse = int(np.sum(gain > SMALL)), int(np.sum(gain < -SMALL))
    return f"{what} helps on {better} of {len(gain)} tasks and harms on {worse}; on average it {on_average}."


def inputs(runs: PaperRuns) -> Iterator[Part]:
    """The table with the same preprocessing for every method, and how far the paper's leads under each."""
    if not runs.has("inputs"):
        yield _missing(runs, "inputs", "The table with the same preprocessing for every method was not run.")
        return
    yield list(input_sentences(runs))
    methods = runs.methods("inputs")
    for variant in (v for v in ("centred", "zscore+unit") if v in runs.variants("inputs")):
        tasks = [t for t in runs.tasks("inputs") if any(runs.cell("inputs", t, m, variant) for m in methods)]
        rows = [[TASKS[t], *marked([runs.cell("inputs", t, m, variant) for m in methods])] for t in tasks]
        if len(tasks) > 1:
            rows.append(["Average", *(f"{runs.means('inputs', tasks, m, variant).mean():.2f}" for m in methods)])
        kind = f"inputs-{variant.replace('+', '-')}"
        yield table(kind, runs.header(methods), rows, orders=runs.orders("inputs"))


def input_sentences(runs: PaperRuns) -> Iterator[str]:
    """How far the paper's method leads the best baseline under each scaling, over the tasks that were run with it."""
    baselines = [m for m in runs.methods("inputs") if m in BASELINES]
    if not baselines or "oddm" not in runs.methods("inputs"):
        return

    def lead(group: str, variant: str, tasks: Sequence[str]) -> str:
        means = np.array([runs.means(group, tasks, m, variant) for m in (*baselines, "oddm")])
        means = means[:, np.isfinite(means).all(axis=0)]
        points = means[:-1].min(axis=0, initial=np.inf) - means[-1]
        if not len(points):
            return ""
        wins = int((points > 0).sum())
        return text("lead-over-baselines", mean=float(points.mean()), wins=wins, tasks=len(points))

    for variant in runs.variants("inputs"):
        for family, title in FAMILIES.items():
            tasks = runs.tasks("inputs", family)
            same, before = lead("inputs", variant, tasks), lead("table", "", tasks)
            if same and before:
                yield f"{title}, {variant}: {runs.titles['oddm']} {same}; with the table's own scalings it {before}."


# -- statistics and time ----------------------------------------------------------------------------------------

TOO_FEW = 6  # paired differences below which Wilcoxon's test cannot reach 0.05, whatever they are


def reference(runs: PaperRuns) -> str:
    """The method that the others are compared with: the paper's own if it was run, else the last one."""
    return "oddm" if "oddm" in runs.methods() else runs.methods()[-1]


def within_tasks(runs: PaperRuns) -> Table:
    """The reference against each other method on each task: difference in points, Holm's p below."""
    first = reference(runs)
    others = [m for m in runs.methods() if m != first]
    rows, records = [], []
    for task in runs.tasks():
        there = [m for m in runs.methods() if runs.at(task, m)]
        rates = require("pandas", "lab").DataFrame({m: runs.rates("table", task, m) for m in there}).dropna()
        if len(there) < 2 or rates.empty or first not in there:
            continue
        pairs = {p.second: p for p in against({m: rates[m].to_numpy() for m in there}, first)}
        better = {m: p.clear and p.difference < 0 for m, p in pairs.items()}
        shown = {m: Value(signed(p.difference), chance(p.adjusted), "best" * better[m]) for m, p in pairs.items()}
        rows.append([TASKS[task], *(shown.get(m, "–") for m in others)])
        records += [
            {"task": task, "first": first, "second": p.second, "difference": round(p.difference, 4)}
            | {"pairs": p.blocks, "p": p.p, "p_holm": p.adjusted}
            for p in pairs.values()
        ]
    return table("wilcoxon", runs.header(others), rows, records, first=runs.titles[first], alpha=ALPHA)


def ranking(runs: PaperRuns) -> Ranking | None:
    """Friedman and Nemenyi over the tasks, on the mean rates; None without two tasks and two methods."""
    means = {m: runs.means("table", runs.tasks(), m) for m in runs.methods()}
    full = np.isfinite(np.array(list(means.values()))).all(axis=0)
    return friedman({m: each[full] for m, each in means.items()}) if len(means) > 1 and full.sum() > 1 else None


def rank_sentences(runs: PaperRuns, ranks: Ranking | None) -> Iterator[str]:
    """What the tests say, and what they cannot."""
    if ranks is not None:
        apart = ", ".join(runs.titles[name] for name in ranks.apart) or "no other method"
        yield text("friedman", ranks=ranks, alpha=ALPHA, best=runs.titles[ranks.ordered[0][0]], apart=apart)
    cells = runs.cells("table")
    orders, splits = max(cell.orders // cell.splits for cell in cells), max(cell.splits for cell in cells)
    yield text("orders-of-a-split", orders=orders, splits=splits)
    if orders * splits < TOO_FEW:
        yield f"With {orders * splits} paired runs Wilcoxon's test cannot fall below 0.05: run at least {TOO_FEW}."
    yield text("ranks-over-tasks")


def _statistics(runs: PaperRuns) -> Iterator[Part]:
    ranks = ranking(runs)
    yield list(rank_sentences(runs, ranks))
    if len(runs.methods()) > 1:
        yield within_tasks(runs)
    if ranks is not None:
        yield figure("critical-difference", critical_difference(ranks, runs.titles, runs.styles))
        rows = [[runs.titles[name], f"{mean:.2f}"] for name, mean in ranks.ordered]
        yield table("ranks", ["method", "mean rank"], rows, tasks=ranks.tasks)


def _time(runs: PaperRuns) -> Iterator[Part]:
    """Median seconds of the offline and of the online stage."""
    methods = runs.methods()
    for what in ("offline", "online"):
        rows = []
        for task in runs.tasks():
            parts = [runs.part("table", task, m) for m in methods]
            length = next(part["n"].iloc[0] for part in parts if len(part))
            medians = (part[f"seconds_{what}"].median() for part in parts)
            shown = ("–" if x != x else f"{x:.3f}" if x < 10 else f"{x:.1f}" for x in medians)
            rows.append([f"{TASKS[task]} ({length})", *shown])
        yield table(f"time-{what}", runs.header(methods), rows)


def _theory(runs: PaperRuns) -> Iterator[Part]:
    yield from theory.parts(runs, TASKS)
    if not runs.has("mixers"):
        yield _missing(runs, "bound", "Mixers with a guarantee (vote, simplex scores, log-loss) were not run.")


def _sensitivity(runs: PaperRuns) -> Iterator[Part]:
    return chain(sensitivity(runs, "C"), sensitivity(runs, "Tw"))


# title, anchor, what stands there, whether it is about the table's runs
SECTIONS = (
    ("Table of mistakes", "table", _table_section, True),
    ("Differences", "differences", _differences, True),
    ("Along the stream", "stream", _stream, True),
    ("Sensitivity", "sensitivity", _sensitivity, False),
    ("Effect of the refresh", "refresh", refresh, False),
    ("The same preprocessing for everybody", "inputs", inputs, False),
    ("Theory", "theory", _theory, True),
    ("Statistics", "statistics", _statistics, True),
    ("Time", "time", _time, True),
)


# -- the page ---------------------------------------------------------------------------------------------------


def verdict(runs: PaperRuns) -> str:
    """What somebody should know who reads nothing else: what was run, who leads, how near the paper, what broke."""
    if not runs.has("table"):
        return "The table of mistakes was not run, so nothing is said here about the paper's numbers as a whole."
    tasks, frame = runs.tasks(), runs.frame
    orders = int(frame[frame["group"] == "table"]["trial"].max()) + 1
    where = TASKS[tasks[0]] if len(tasks) == 1 else f"{len(tasks)} tasks"
    scope = f"{count(len(runs.methods()), 'method')} on {where}, {count(orders, 'order')} of each stream."
    return paragraph([scope, _leader(runs), _agreement(runs), theory.verdict(runs)])


def _leader(runs: PaperRuns) -> str:
    """The paper's own method among those that were run on the same tasks."""
    subject, methods = reference(runs), runs.methods()
    means = np.array([runs.means("table", runs.tasks(), m) for m in methods]).T
    full = np.isfinite(means).all(axis=1)
    tasks, means = [task for task, whole in zip(runs.tasks(), full, strict=True) if whole], means[full]
    if not tasks or len(methods) < 2:
        return ""
    own, average = methods.index(subject), means.mean(axis=0)
    theirs = [PUBLISHED[task, subject].mean for task in tasks if (task, subject) in PUBLISHED]
    published = f" (published: {np.mean(theirs):.2f} %)" if len(theirs) == len(tasks) else ""
    best, wins = int(average.argmin()), int((means.argmin(axis=1) == own).sum())
    several = f"the fewest mistakes on {wins} of {len(tasks)} tasks and {average[own]:.2f} % on average"
    text = f"{runs.titles[subject]} makes {several if len(tasks) > 1 else f'{average[own]:.2f} % mistakes'}{published}"
    fewest = f"; the fewest are those of {runs.titles[methods[best]]}, {average[best]:.2f} %."
    return text + (", the fewest of all." if best == own else fewest)


def _agreement(runs: PaperRuns) -> str:
    """How near our means are to the published ones."""
    cells = [(cell, theirs) for key, theirs in PUBLISHED.items() if (cell := runs.at(*key))]
    if not cells:
        return ""
    off = np.mean([abs(cell.mean - theirs.mean) for cell, theirs in cells])
    text = f"Our means lie {off:.2f} points from the published ones on average; "
    if not any(judged(cell) for cell, _ in cells):
        return text + f"with fewer than {ENOUGH_ORDERS} orders it is not judged which of them differ."
    return text + f"{len(runs.far_cells())} of {len(cells)} differ by more than both deviations together."


def report(out: str | Path, say: Say = lambda text: None) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    folder = Path(out)
    command = f"hedgerow paper --out {shlex.quote(str(out))}"
    runs = PaperRuns.read(folder, say, f"run `{command}` first")
    runs.command = commands_given(folder).rpartition(" · ")[2] or command
    sections = [
        pages.Section(title, [part for part in make(runs) if part], anchor)
        for title, anchor, make, of_table in SECTIONS
        if runs.has("table") or not of_table
    ]
    options = [made for family in FAMILIES if (made := paper.options_table(runs, family))]
    facts, about = _facts(runs, folder), text("about-paper")
    return pages.Report("HomOTL-ODDM, reproduced", verdict(runs), sections, facts, about, options).save(folder)


def _facts(runs: PaperRuns, folder: Path) -> dict[str, str]:
    """What was run, for the end of the report."""
    frame = runs.frame
    rows = frame[frame["group"] == "table"] if runs.has("table") else frame
    trials, splits = sorted(set(rows["trial"])), sorted(set(rows["split"]))
    known = frame[frame["task"].isin(TASKS)]
    sums = known["data"].groupby(known["task"].map(lambda task: FAMILIES[family_of(task)]), sort=False).agg(set)
    mixed = " (rows of different data are mixed here)" if (sums.map(len) > 1).any() else ""
    versions = {", ".join(f"{name} {number}" for name, number in each.items()) for each in frame["versions"]}
    return {
        "command": commands_given(folder),
        "reading": ", ".join(sorted(set(frame["reading"]))),
        "tasks": ", ".join(TASKS[task] for task in runs.tasks()),
        "methods": ", ".join(runs.titles[m] for m in runs.methods()),
        "orders": f"{len(trials)} of each stream (seeds {trials[0]} to {trials[-1]}), the same for every method",
        "splits": f"{len(splits)} (seeds {', '.join(map(str, splits))})"
        + ("; split 0 is the published one where the files have it" if 0 in splits else ""),
        "data": ", ".join(f"{name} {'/'.join(sorted(each))}" for name, each in sums.items()) + mixed,
        "run with": "; ".join(sorted(versions)),
        "results": f"{len(frame)} runs in results.jsonl" + "".join(f"; {p}" for p in runs.problems),
    }
