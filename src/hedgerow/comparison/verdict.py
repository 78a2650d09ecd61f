"""The report in one paragraph, computed from the rows: who leads, by how much, what else matters, what was not kept."""

from __future__ import annotations

from hedgerow.comparison.measures import FIRST
from hedgerow.comparison.runs import ComparisonRuns
from hedgerow.experiment.tables import chance
from hedgerow.experiment.words import paragraph


def verdict(runs: ComparisonRuns) -> str:
    """What somebody should know who reads nothing else."""
    return paragraph(said(runs) for said in (_leader, _second, _start, _calibration, _sources, _order))


def _leader(runs: ComparisonRuns) -> str:
    name, cell = runs.titles[runs.leader], runs.cell(runs.leader)
    lead = "makes" if len(runs.names) == 1 else "makes the fewest mistakes:"
    mistakes = " mistakes" if len(runs.names) == 1 else ""
    return f"{name} {lead} {cell.brief} %{mistakes} of {runs.n} instances of {runs.task}."


def _second(runs: ComparisonRuns) -> str:
    """How far behind the next one is, and which cannot be told from the leader."""
    if len(runs.names) < 2:
        return ""
    second = runs.ranked[1]
    behind = runs.cell(second).mean - runs.cell(runs.leader).mean
    pair = next(pair for pair in runs.pairs() if pair.second == second)
    tested = "" if runs.by_orders or runs.orders == 1 else " on the instances of the first order"
    said = f"{runs.titles[second]} follows, {behind:.1f} points behind ({chance(pair.adjusted)}{tested})"
    alike = [name for name in runs.alike() if name != second]
    if second not in runs.alike():
        return said + "."
    if not alike:
        return said + ": not enough to tell the two apart."
    others = ", ".join(runs.titles[name] for name in alike)
    return said + f": not enough to tell the two apart, nor {others} from them."


def _start(runs: ComparisonRuns) -> str:
    """Who is best in the first instances."""
    best = min(runs.names, key=lambda name: (runs.first(name), runs.ranked.index(name)))
    n = min(FIRST, runs.n)
    rate = f"{runs.first(best):.1f} %"
    if best == runs.leader:
        return f"The leader is also the best of the first {n} instances ({rate})." if len(runs.names) > 1 else ""
    own = runs.first(runs.leader)
    return f"In the first {n} instances {runs.titles[best]} is better ({rate}; the leader: {own:.1f} %)."


def _calibration(runs: ComparisonRuns) -> str:
    best = min(runs.names, key=lambda name: (runs.mean(name, "log_loss"), runs.ranked.index(name)))
    loss, error = runs.mean(best, "log_loss"), 100 * runs.bins(best).error
    if len(runs.names) == 1:
        return f"Its log-loss is {loss:.2f}, its confidence {error:.1f} points off on average."
    who = "the leader" if best == runs.leader else runs.titles[best]
    return f"The best probabilities are those of {who}: log-loss {loss:.2f}, {error:.1f} points off on average."


def _sources(runs: ComparisonRuns) -> str:
    """The most and the least valuable source, for the best method that was tried without each."""
    method = next((name for name in runs.ranked if runs.worths(name)), None)
    if method is None:
        return ""
    worths = runs.worths(method)
    most, least = worths[0], worths[-1]
    who = "the leader" if method == runs.leader else runs.titles[method]
    said = f"Without the source {most.source} {who} would make {_change(most.points)}"
    if len(worths) > 1:
        said += f", without {least.source} {_change(least.points)}"
    return said + "."


def _change(points: float) -> str:
    """A change of the mistake rate in words.

    >>> _change(1.24), _change(-0.3), _change(0.01)
    ('1.2 points more mistakes', '0.3 points fewer', 'as many')
    """
    if abs(points) < 0.05:
        return "as many"
    return f"{points:.1f} points more mistakes" if points > 0 else f"{-points:.1f} points fewer"


def _order(runs: ComparisonRuns) -> str:
    if runs.shuffled:
        return f"The stream was shuffled, {runs.orders} times: what changes in time is not seen here."
    return "The stream was kept in its order in time."
