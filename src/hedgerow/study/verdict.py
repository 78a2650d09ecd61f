"""The report in one paragraph, computed from the rows: who leads, where not, what trouble costs, what follows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hedgerow.experiment.summaries import ENOUGH_ORDERS
from hedgerow.experiment.words import count, paragraph
from hedgerow.study.conditions import Condition, Lead, conditions
from hedgerow.study.findings import StudyRuns


def verdict(every: Sequence[StudyRuns]) -> str:
    """What somebody should know who reads nothing else."""
    found = _Standing(every)
    if not found.conditions:
        nothing = "No condition with trouble has been run yet, so nothing is said about it here."
        return paragraph([_scope(found), nothing])
    return paragraph([_scope(found), _leader(found), _behind(found), _cost(found), _meaning(found)])


class _Standing:
    """Where the leader stands: the method that has the fewest mistakes in most conditions."""

    def __init__(self, every: Sequence[StudyRuns]) -> None:
        self.every = every
        self.conditions = list(conditions(every))
        self.methods = list(dict.fromkeys(method for runs in every for method in runs.methods))
        self.tasks = list(dict.fromkeys(runs.task for runs in every))

    @cached_property
    def orders(self) -> list[int]:
        """The fewest and the most orders of a cell."""
        counts = [len(runs.rows(m, p)) for runs in self.every for m in runs.methods for p in runs.points]
        return sorted({min(n for n in counts if n), max(counts)})

    @cached_property
    def leader(self) -> str:
        """Of methods that win as often, the one with the fewer mistakes on average."""

        def standing(method: str) -> tuple[int, float]:
            means = [c.cells[method].mean for c in self.conditions if method in c.cells]
            return sum(lead.points >= 0 for _, lead in self.leads(method)), -float(np.mean(means or [100.0]))

        return max(self.methods, key=standing)

    def leads(self, method: str) -> list[tuple[Condition, Lead]]:
        """A method's lead in every condition in which it has a rival."""
        return [(condition, lead) for condition in self.conditions if (lead := condition.lead(method))]

    @cached_property
    def won(self) -> list[tuple[Condition, Lead]]:
        """Where the leader makes the fewest mistakes."""
        return [(condition, lead) for condition, lead in self.leads(self.leader) if lead.points >= 0]

    @cached_property
    def lost(self) -> list[tuple[Condition, Lead]]:
        """Where another method makes fewer, the largest difference first."""
        behind = [(condition, lead) for condition, lead in self.leads(self.leader) if lead.points < 0]
        return sorted(behind, key=lambda pair: pair[1].points)

    @cached_property
    def worst(self) -> Condition | None:
        """The condition that costs the leader most; None where none can be compared with the stream as it is."""
        comparable = [condition for condition in self.conditions if self.leader in condition.losses()]
        return max(comparable, key=lambda condition: condition.losses()[self.leader], default=None)

    def title(self, method: str) -> str:
        return self.every[0].title(method)

    def name(self, condition: Condition) -> str:
        where = f", {condition.task}" if len(self.tasks) > 1 else ""
        return f"“{condition.point}” ({condition.study.title}{where})"


def _scope(found: _Standing) -> str:
    studies = len({runs.study.name for runs in found.every})
    where = found.tasks[0] if len(found.tasks) == 1 else count(len(found.tasks), "target")
    least = f"{found.orders[0]} to " if len(found.orders) > 1 else ""
    orders = least + count(found.orders[-1], "order")
    methods = count(len(found.methods), "method")
    return f"{methods} in {count(studies, 'study', 'studies')} on {where}, {orders} of each stream."


def _leader(found: _Standing) -> str:
    """In how many conditions it makes the fewest mistakes, and whether by more than the orders differ."""
    won, total = len(found.won), len(found.won) + len(found.lost)
    if not total:
        return ""
    spoiled = {(condition.study.name, condition.task) for condition, _ in found.lost}
    there = {(condition.study.name, condition.task) for condition, _ in (*found.won, *found.lost)}
    whole = f", throughout in {len(there - spoiled)} of {len(there)} studies" if spoiled and len(there) > 1 else ""
    number = f"all {total}" if won == total else f"{won} of {total}"
    said = f"{found.title(found.leader)} makes the fewest mistakes in {number} conditions with trouble{whole}"
    if found.orders[0] == 1:
        return said + ". With one order nobody knows how much of a lead is due to the order of the stream."
    return said + f"; its lead is {_spread(won, sum(lead.clear for _, lead in found.won))}."


def _spread(won: int, clear: int) -> str:
    both = "both standard deviations over the orders together"
    if clear in (0, won):
        return f"{'larger than' if clear else 'within'} {both} {'there' if won == 1 else 'in all of them'}"
    return f"larger than {both} in {clear} of them; in the other {won - clear} the order of the stream may explain it"


def _behind(found: _Standing) -> str:
    if not found.lost:
        return ""
    condition, lead = found.lost[0]
    most = ":" if len(found.lost) == 1 else ", most"
    said = f"It is behind in {len(found.lost)}{most} at {found.name(condition)}"
    said += f" {found.title(lead.rival)} makes {-lead.points:.1f} points fewer mistakes"
    if found.orders[0] == 1:
        return said + "."
    return said + f", {'more than' if lead.clear else 'within'} the spread of the orders."


def _cost(found: _Standing) -> str:
    """The largest loss of the leader when the trouble grows, and who loses least there."""
    if found.worst is None:
        return ""
    losses, own = found.worst.losses(), found.leader
    if losses[own] <= 0:
        return f"No trouble here costs {found.title(own)} anything."
    there, before = found.worst.cells[own].mean, found.worst.without[own].mean
    said = f"The trouble that costs {found.title(own)} most is {found.name(found.worst)}: "
    said += f"{there:.1f} % mistakes instead of {before:.1f} %, {losses[own]:.1f} points more"
    least = min(losses, key=lambda method: losses[method])
    if len(losses) == 1:
        return said + "."
    if least == own:
        return said + "; all others lose more there."
    return said + f"; least it costs {found.title(least)}, {losses[least]:.1f} points."


def _meaning(found: _Standing) -> str:
    """What a reader should do: a choice only where most leads are larger than the spread."""
    leads = [lead for _, lead in found.leads(found.leader)]
    if not leads:
        return ""
    more = f"{ENOUGH_ORDERS} orders or more (--orders)"
    if found.orders[0] == 1:
        return f"What that means: run {more} before you choose a method by this page."
    few = found.orders[0] < ENOUGH_ORDERS
    hint = f"{found.orders[0]} orders are few: take it as a hint, and run {more} before you rely on it." if few else ""
    if 2 * sum(lead.clear and lead.points > 0 for lead in leads) < len(leads):
        unsafe = "no method here is a safe choice: the order of the stream matters as much as the method."
        return paragraph([f"What that means: {unsafe}", hint])
    bad = [condition for condition, lead in found.lost if lead.clear]
    unless = f", but not where a stream is like {found.name(bad[0])}" if bad else ""
    return paragraph(
        [f"What that means: begin with {found.title(found.leader)}{unless}.", _weighed(found, leads), hint]
    )


def _weighed(found: _Standing, leads: Sequence[Lead]) -> str:
    """The choice of a method against the trouble itself."""
    median = float(np.median([lead.points for lead in leads]))
    said = f"Its median lead over the next best is {median:.1f} points"
    cost = found.worst.losses()[found.leader] if found.worst else 0.0
    if cost <= median:
        return f"{said}, more than any trouble costs it."
    return f"{said}, and trouble costs it up to {cost:.1f}: to mend the stream may gain more than to change the method."
