"""Sentences computed from the rows, also where we lose."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.stats import binomtest

from peers.fold import (
    OWN,
    Grid,
    Line,
    Row,
    Value,
    calibration,
    early,
    memory,
    ours_until,
    own_line,
    rate,
    step_ms,
    title_of,
    wrong,
)
from peers.peer import SOURCES
from peers.registry import OURS

CLOSEST = 5  # peers that are named one by one
CLOSE = 0.05  # a difference on the same rows that chance makes as often as this is called no difference


def peers(grid: Grid) -> list[Line]:
    """All lines but ours."""
    return [line for line in grid.lines if line.method not in OURS]


def package(line: Line) -> str:
    """skada's methods are one choice, and so are ADAPT's: the best of them is picked, in their favour."""
    name = line.method.split()[0]
    return (name if name in ("skada", "ADAPT") else line.method) + ("" if line.training == SOURCES else ", target only")


def gap(grid: Grid, line: Line, tasks: list[str] | None = None) -> float | None:
    """Its mistakes less ours in points, on average over the tasks that it finished."""
    common = grid.common(line, tasks)
    theirs, ours = grid.average(line, common, rate), grid.average(own_line(), common, rate)
    return None if theirs is None or ours is None else theirs - ours


def best_lines(grid: Grid) -> list[Line]:
    """Of each peer the setting with the fewest mistakes."""
    groups: dict[str, list[Line]] = {}
    for line in peers(grid):
        groups.setdefault(package(line), []).append(line)
    return [best_of(grid, lines) for lines in groups.values()]


def best_of(grid: Grid, lines: list[Line]) -> Line:
    """On the streams that all of them finished; those that finished less than half as many as another do not count."""
    most = max(len(grid.common(line)) for line in lines)
    known = [line for line in lines if 2 * len(grid.common(line)) >= most]
    shared = [t for t in grid.tasks if all(grid.finished(line, t) for line in known)]
    return min(known, key=lambda x: (gap(grid, x, shared) or 0.0, -len(grid.common(x))))


def sign_test(grid: Grid, line: Line, task: str) -> float:
    """How often chance alone would part two runs this far: the rows that only one of them got right."""
    mine = {(r["split"], r["trial"]): wrong(r) for r in grid.rows(own_line(), task)}
    ours = theirs = 0
    for row in grid.rows(line, task):
        own, other = mine[row["split"], row["trial"]], wrong(row)
        ours += int((own & ~other).sum())
        theirs += int((other & ~own).sum())
    return float(binomtest(ours, ours + theirs).pvalue) if ours + theirs else 1.0


def mistakes(grid: Grid) -> Iterator[str]:
    most = max((len(grid.common(line)) for line in peers(grid)), default=0)
    known = [line for line in best_lines(grid) if 2 * len(grid.common(line)) >= most > 0]
    for line in sorted(known, key=lambda x: gap(grid, x) or 0.0)[:CLOSEST]:
        common = grid.common(line)
        ours, linear, theirs = (grid.average(x, common, rate) for x in (own_line(), own_line(OURS[1]), line))
        light = "" if linear is None else f", `{OURS[1]}` {linear:.2f} %"
        yield (
            f"Against {line.title}, over the {len(common)} streams that it finished: `{OWN}` {ours:.2f} %{light}, "
            f"it {theirs:.2f} %."
        )
    pairs = [(line, t) for line in peers(grid) for t in grid.common(line)]
    lost = [(x, t) for x, t in pairs if (grid.mean(x, t, rate) or 0) < (grid.mean(own_line(), t, rate) or 0)]
    even = [(x, t) for x, t in pairs if grid.mean(x, t, rate) == grid.mean(own_line(), t, rate)]
    yield (
        f"In {len(pairs)} finished runs of peers, `{OWN}` has fewer mistakes than the peer in "
        f"{len(pairs) - len(lost) - len(even)}, as many in {len(even)}, more in {len(lost)}."
    )
    clear = [f"{x.title} on {title_of(t)}" for x, t in lost if sign_test(grid, x, t) < CLOSE]
    if lost:
        shown = ", ".join(
            f"{x.title} on {title_of(t)} ({grid.mean(x, t, rate):.1f} against {grid.mean(own_line(), t, rate):.1f} %)"
            for x, t in lost
        )
        beyond = ", ".join(clear) or "none"
        yield f"**Where we lose:** {shown}. Beyond chance (sign test on the same rows, 5 %): {beyond}."
    close = sum(sign_test(grid, x, t) >= CLOSE for x, t in pairs if (x, t) not in lost)
    yield f"Of the runs in which we do not lose, {close} are within chance by the same test."


def below_ours(grid: Grid, value: Value, name: str) -> str:
    """Which lines are below ours in some other value, and on which streams."""
    found, total = [], 0
    for line in peers(grid):
        tasks = [t for t in grid.common(line) if grid.mean(line, t, value) is not None]
        below = [t for t in tasks if (grid.mean(line, t, value) or 0) < (grid.mean(own_line(), t, value) or 0)]
        total += len(tasks)
        if below:
            found.append(f"{line.title} on {', '.join(title_of(t) for t in below)}")
    return f"**{name}**: of {total} finished runs these are below ours: {'; '.join(found) or 'none'}."


def costs(grid: Grid) -> Iterator[str]:
    """Time and memory against every peer's best setting."""
    for value, name, unit in ((step_ms, "time an instance", "ms"), (memory, "memory", "MiB")):
        ratios = []
        for line in best_lines(grid):
            tasks = grid.common(line)
            own = [grid.mean(own_line(), t, value) or 0 for t in tasks]
            other = [grid.mean(line, t, value) or 0 for t in tasks]
            if tasks and min(own) > 0 and min(other) > 0:
                ratios.append((float(np.exp(np.mean(np.log(other) - np.log(own)))), line))
        ratios.sort()
        less = [f"{line.title} ({ratio:.2g} times ours)" for ratio, line in ratios if ratio < 1]
        more = [f"{line.title} ({ratio:.2g})" for ratio, line in ratios if ratio >= 1]
        yield (
            f"**{name.capitalize()}** ({unit}; mean ratio over the streams that it finished). Less than ours: "
            f"{'; '.join(less) or 'none'}. More: {'; '.join(more) or 'none'}."
        )


def unfinished(grid: Grid) -> Iterator[str]:
    """What met its limit, and what broke."""
    runs = [(line, row) for (line, task), rows in grid.cells.items() if task in grid.tasks for row in rows]
    late = [row for _, row in runs if not row["finished"] and "error" not in row]
    short = sum(row["finished"] and row["source_rows"] < row["source_total"] for _, row in runs)
    begun = [(rate(row), ours_until(grid, row)) for row in late if row["n"]]
    fewer = sum(own is not None and theirs is not None and own < theirs for theirs, own in begun)
    yield (
        f"**Limits**: {len(late)} runs met their limit before the end of the stream, {len(late) - len(begun)} of them "
        f"before its first row; of the {len(begun)} others `{OWN}` has fewer mistakes on the same rows than {fewer}. "
        f"{short} more runs finished, but had learned only a part of the sources when half of the limit was over."
    )
    broken: dict[str, list[Row]] = {}
    for line, row in runs:
        if "error" in row:
            broken.setdefault(line.title, []).append(row)
    for title, rows in broken.items():
        yield f"**Failed**: {title} on {', '.join(title_of(r['task']) for r in rows)} ({rows[0]['error']})."


def findings(grid: Grid) -> Iterator[str]:
    """All of them, as a list in markdown."""
    yield from (f"- {sentence}" for sentence in mistakes(grid))
    yield f"- {below_ours(grid, early, 'First 50 labels')}"
    yield f"- {below_ours(grid, calibration, 'Calibration error')}"
    yield from (f"- {sentence}" for sentence in costs(grid))
    yield from (f"- {sentence}" for sentence in unfinished(grid))
