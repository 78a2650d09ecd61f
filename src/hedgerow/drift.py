r"""Has the target changed? Mistakes in recent windows against what the best expert so far explains.

`clf.drift_` is a model's own report; `DriftDetector` is the same rule for mistakes from anywhere, and
`hedgerow.river.MistakesDrift` a detector of river.

A guarantee compares the prediction with the best expert, so that expert's mistakes before a window say how many the
window may have. Every 16 labels the windows of the last 16, 32, ..., 256 labels are compared with the labels before
them. Of :math:`n_0` labels before a window the comparator (the best expert, or the prediction itself, if that was
better) got :math:`m_0` wrong; of the :math:`n_1` labels in it the prediction or that comparator, whichever was worse,
got :math:`m_1` wrong: a prediction that soon follows a change makes few mistakes, the expert that was best before it
makes many. The evidence is the log-likelihood ratio of two rates against one,

.. math:: n_0\,\mathrm{kl}(m_0/n_0, p) + n_1\,\mathrm{kl}(m_1/n_1, p), \qquad p = (m_0 + m_1)/(n_0 + n_1),

if :math:`m_1/n_1` is the larger; above `THRESHOLD` it is an alarm, and what comes before is forgotten. If
:math:`m_1/n_1` is the smaller by as much, the learner has improved: the window is what later ones are compared with.

The state consists of counts at multiples of 16 labels, so it is the same for blocks and for single rows, and the labels
in between cost nothing. `THRESHOLD` was chosen on simulated mistakes and on digits, see docs/streams.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import MOST, WHOLE, Spec
from hedgerow.core.errors import InputError

__all__ = ["Change", "Drift", "DriftDetector"]

EVERY = 16  # labels between two looks
SPANS = (1, 2, 4, 8, 16)  # windows, in looks
ENDS = -1 - np.array(SPANS)  # the counts before each window
ROOM = SPANS[-1] + 1  # counts that are kept
LONGEST = (
    SPANS[-1] * EVERY
)  # labels of the longest window: after as many nothing before an alarm is looked at
LEAST = 3 * EVERY  # labels before a window: fewer say too little
THRESHOLD = 8.0
MARKS = "drift.marks"
START = "drift.start"
FOUND = "drift.found"
LEVEL = "drift.level"
CHANGE = "drift.change"
State = dict[str, Array]


@dataclass(frozen=True)
class Change:
    """The numbers of an alarm: of the window that had the most evidence.

    Attributes
    ----------
    evidence
        The log-likelihood ratio.
    window
        How many labels the window has.
    recent
        The share of mistakes in it, of the prediction or the comparator, the worse.
    explained
        The comparator's share before it.
    """

    evidence: float
    window: int
    recent: float
    explained: float


@dataclass(frozen=True)
class Drift:
    """Whether the target has changed.

    Attributes
    ----------
    detected
        Whether the last comparison, at most 15 labels ago, raised an alarm.
    alarms
        How many alarms there were.
    last
        After which label the last one was raised; None before the first.
    level
        The evidence of the last comparison as a share of the threshold.
    recent
        The share of mistakes in the newest window, of the prediction or the comparator, the worse; NaN: too early.
    explained
        The comparator's share before that window; NaN: too early.
    change
        The numbers of the last alarm.
    """

    detected: bool
    alarms: int
    last: int | None
    level: float
    recent: float
    explained: float
    change: Change | None = None

    def is_fresh(self, seen: int) -> bool:
        """Whether, after so many labels, the last alarm is still to be shown: until no window reaches back to it."""
        return self.last is not None and seen - self.last < LONGEST


def initial(counts: Array) -> State:
    """The arrays before any look; counts are labels, mistakes, mistakes of each expert so far."""
    marks = np.zeros((ROOM, len(counts)), dtype=np.int64)
    marks[-1] = counts
    return {
        MARKS: marks,
        START: marks[-1].copy(),
        FOUND: np.array(
            [1, 0, 0], dtype=np.int64
        ),  # rows of marks in use, alarms, label of the last alarm
        LEVEL: np.zeros(1),
        CHANGE: np.zeros(
            4, dtype=np.int64
        ),  # of the last alarm: mistakes and labels before its window, and in it
    }


def specs(width: int) -> dict[str, Spec]:
    """What these arrays look like; width: labels, mistakes and an entry an expert."""
    whole = (WHOLE, 0, MOST)
    return {
        MARKS: Spec((ROOM, width), *whole),
        START: Spec((width,), *whole),
        FOUND: Spec((3,), *whole),
        LEVEL: Spec((1,), low=0),
        CHANGE: Spec((4,), *whole),
    }


def look(state: State, counts: Array, threshold: float = THRESHOLD) -> bool:
    """Compare the windows that end here with what came before; whether one of them raises an alarm."""
    marks = state[MARKS]
    start = state[START]
    alarms = state[FOUND]
    marks[:-1] = marks[1:]
    marks[-1] = counts
    alarms[0] = used = min(int(alarms[0]) + 1, ROOM)
    worse = 0.0
    better = 0.0
    since = start
    window = (0, 0, 0, 0)
    for end, compared in zip(
        ENDS, _windows(marks, start, ENDS[: bisect_left(SPANS, used)]), strict=False
    ):
        if compared[1] < LEAST:
            break
        ratio = evidence(*compared)
        if ratio > worse:
            worse = ratio
            window = compared
        if -ratio > better:
            better = -ratio
            since = marks[end]
    state[LEVEL][0] = worse / threshold
    if worse > threshold:
        alarms[:] = 1, alarms[1] + 1, counts[0]
        start[:] = counts
        state[CHANGE][:] = window
        return True
    if better > threshold:
        start[:] = since
    return False


def evidence(m0: float, n0: float, m1: float, n1: float) -> float:
    """The log-likelihood ratio of two rates against one; negative if the second rate is the smaller.

    >>> evidence(10, 100, 10, 100), round(evidence(10, 100, 30, 100), 2), round(evidence(30, 100, 10, 100), 2)
    (0.0, 6.49, -6.49)
    """
    if n0 <= 0 or n1 <= 0:
        return 0.0
    if not (0 <= m0 <= n0 and 0 <= m1 <= n1):  # counts of a made-up file need not fit together
        m0 = min(max(m0, 0), n0)
        m1 = min(max(m1, 0), n1)
    ratio = 0.0
    m = m0 + m1
    n = n0 + n1
    if m0:
        ratio += m0 * math.log(m0 * n / (n0 * m))
    if m0 < n0:
        ratio += (n0 - m0) * math.log((n0 - m0) * n / (n0 * (n - m)))
    if m1:
        ratio += m1 * math.log(m1 * n / (n1 * m))
    if m1 < n1:
        ratio += (n1 - m1) * math.log((n1 - m1) * n / (n1 * (n - m)))
    return max(ratio, 0.0) if m1 * n0 >= m0 * n1 else min(-ratio, 0.0)


def _windows(marks: Array, start: Array, places: Array) -> list[tuple[int, int, int, int]]:
    """m0, n0, m1, n1 of windows after these marks: the comparator before; it or the prediction, the worse, in it."""
    first = start.tolist()
    now = marks[-1].tolist()
    windows = []
    for end in marks[places].tolist():
        before = list(map(sub, end, first))
        k = before.index(min(before[1:]), 1)
        windows.append(
            (before[k], before[0], max(now[1] - end[1], now[k] - end[k]), now[0] - end[0])
        )
    return windows


def report(state: State, seen: int) -> Drift:
    """The state after so many labels, for people; nothing changes."""
    marks = state[MARKS]
    alarms = int(state[FOUND][1])
    last = int(state[FOUND][2])
    span = min(int(state[FOUND][0]) - 1, SPANS[2])
    [(m0, n0, m1, n1)] = _windows(marks, state[START], np.array([-1 - span]))
    change = None
    if alarms:
        before, labels, within, window = state[CHANGE].tolist()
        ratio = evidence(before, labels, within, window)
        change = Change(ratio, window, within / max(window, 1), before / max(labels, 1))
    return Drift(
        detected=alarms > 0 and seen - last < EVERY,
        alarms=alarms,
        last=last if alarms else None,
        level=float(state[LEVEL][0]),
        recent=m1 / n1 if n1 > 0 else math.nan,
        explained=m0 / n0 if n0 > 0 else math.nan,
        change=change,
    )


def last_alarm(state: State) -> int:
    """After which label the last alarm was raised, 0 before the first: as in `report`, for those who ask often."""
    return int(state[FOUND][2])


def learned(state: State, counts: Array, wrong: Array, threshold: float = THRESHOLD) -> bool:
    """Labels in order: wrong (labels x 1 + experts) says who was wrong; counts are those before them. Any alarm?"""
    n = len(wrong)
    alarm = False
    first = EVERY - int(counts[0]) % EVERY
    if n < first:
        return False
    sums = np.cumsum(wrong, axis=0, dtype=np.int64)
    for at in range(first, n + 1, EVERY):
        now = counts.copy()
        now[0] += at
        now[1:] += sums[at - 1]
        alarm |= look(state, now, threshold)
    return alarm


class DriftDetector:
    """A detector of drift in a stream of mistakes, whatever predicted.

    Use it where labels arrive and a model's mistakes are known. It needs no features and is no test of covariate drift:
    a change that costs no mistakes is not detected.

    Parameters
    ----------
    experts
        How many other predictors are watched beside the prediction; the best of them explains what may be expected.
    threshold
        The log-likelihood ratio above which there is an alarm.

    Attributes
    ----------
    drift_detected : bool
        Whether the last label raised an alarm.

    Examples
    --------
    >>> detector = DriftDetector()
    >>> for t in range(600):
    ...     detector.update(t % 10 == 0 if t < 400 else t % 2 == 0)
    ...     if detector.drift_detected:
    ...         print("after label", t + 1)
    after label 432
    """

    def __init__(self, experts: int = 0, threshold: float = THRESHOLD) -> None:
        if not isinstance(experts, int) or experts < 0:
            raise InputError(f"experts={experts!r}: give their number, 0 or more")
        if not threshold > 0:
            raise InputError(
                f"threshold={threshold!r}: the evidence for an alarm must be above 0, e.g. {THRESHOLD}"
            )
        self.experts = experts
        self.threshold = threshold
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._counts = np.zeros(2 + self.experts, dtype=np.int64)
        self._state = initial(self._counts)
        self.drift_detected = False

    def update(self, x: float, experts: Sequence[float] = ()) -> None:
        """Take one label.

        Parameters
        ----------
        x
            1 or True if the prediction was wrong, 0 or False if it was right.
        experts
            The same for each expert.

        Raises
        ------
        InputError
            If a mistake is neither 0 nor 1, or not every expert has one; nothing has changed then.
        """
        mistakes = (x, *experts)
        if len(experts) != self.experts:
            raise InputError(
                f"{len(experts)} experts' mistakes were given, this detector has {self.experts} experts"
            )
        if any(one not in (0, 1) for one in mistakes):
            raise InputError(f"{mistakes!r}: a mistake is 1 or True, none is 0 or False")
        self._counts[0] += 1
        self._counts[1:] += np.array(mistakes, dtype=np.int64)
        due = self._counts[0] % EVERY == 0
        self.drift_detected = bool(due and look(self._state, self._counts, self.threshold))

    @property
    def drift_(self) -> Drift:
        """The report so far."""
        return report(self._state, int(self._counts[0]))
