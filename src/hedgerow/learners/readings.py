"""Where the paper, its authors' code and its table differ: each place is a named option, and a preset sets them all.

| #  | option          | paper          | authors' code     | table                               | general       |
|----|-----------------|----------------|-------------------|-------------------------------------|---------------|
| 1  | `tau`           | printed        | original          | original                            | original      |
| 2  | `source_pass`   | average        | last              | last; baselines: average            | average       |
| 3  | `target_mean`   | stream         | warmup            | warmup                              | warmup        |
| 4  | `unseen`        | skip (unsaid)  | zero              | zero                                | shrink        |
| 5  | `refresh_every` | 10 (PIE: 50)   | 10                | 10 (PIE: 50)                        | 50            |
| 6  | `split_rule`    | drawn          | fixed             | fixed                               | drawn         |
| 7  | `preprocess`    | zscore         | row-minmax + unit | row-minmax + unit; baselines: no unit | zscore + unit |
| 8  | `projected`     | plain          | unit              | unit                                | unit          |
| 9  | `beta_rule`     | ln 2n          | ln 2              | ln 2                                | ln 2n         |
| 10 | `inverse`       | pinv           | woodbury (equal)  | woodbury                            | woodbury      |
| 11 | `lam`           | 1 (PIE: .1)    | .1                | 1 (PIE: .1)                         | 1             |
| 12 | `guarantee`     | theorem        | proved            | proved                              | proved        |

`eigenvectors` (MATLAB's unit length, or a^T S a = 1) and `combine` complete a reading. The values for PIE are set by
its tasks. "general" is our default for data that is not the paper's: each domain scaled by its own statistics, and none
of the accidents above.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from numbers import Real
from typing import Any

import numpy as np

from hedgerow.core.errors import InputError, unknown
from hedgerow.core.preprocess import parse
from hedgerow.core.rule_numbers import UNSEEN

PRESETS = ("general", "authors", "paper", "table", "table-baselines")
CHOICES: dict[str, tuple[str, ...]] = {
    "tau": ("original", "printed"),
    "source_pass": ("last", "average"),
    "target_mean": ("warmup", "stream"),
    "unseen": tuple(UNSEEN),
    "split_rule": ("drawn", "fixed"),
    "projected": ("unit", "plain"),
    "beta_rule": ("ln 2", "ln 2n"),
    "inverse": ("woodbury", "pinv"),
    "guarantee": ("proved", "theorem"),
    "eigenvectors": ("unit", "S"),
    "combine": ("scores", "vote", "simplex"),
}


@dataclass(frozen=True)
class Reading:
    """One answer to each of the twelve questions, and to the two that go with them.

    `preset` is the name of the reading it started from: `replace(AUTHORS, lam=1.0)` is the authors' with another lam.

    >>> Reading(lam=0.5).changes()
    {'lam': 0.5}
    """

    tau: str = "original"
    source_pass: str = "average"
    target_mean: str = "warmup"
    unseen: str = "shrink"
    refresh_every: int = 50
    split_rule: str = "drawn"
    preprocess: tuple[str, ...] = ("zscore", "unit")
    projected: str = "unit"
    beta_rule: str = "ln 2n"
    inverse: str = "woodbury"
    lam: float = 1.0
    guarantee: str = "proved"
    eigenvectors: str = "unit"
    combine: str | None = None  # None: as the method's own source defines it
    preset: str = "general"

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise unknown("reading", self.preset, PRESETS)
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (name == "combine" and value is None):
                raise unknown(f"value of {name}", value, choices)
        if not isinstance(self.refresh_every, int | np.integer) or self.refresh_every < 1:
            raise InputError(f"refresh_every={self.refresh_every!r}: must be a whole number of labels, at least 1")
        if not (isinstance(self.lam, Real) and 0 < self.lam < math.inf):
            raise InputError(f"lam={self.lam!r}: the ridge of the aligner must be a positive number")
        object.__setattr__(self, "preprocess", parse(self.preprocess))

    def changes(self) -> dict[str, Any]:
        """What differs from the preset."""
        preset = READINGS[self.preset]
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != getattr(preset, f.name)}


GENERAL = Reading()

AUTHORS = Reading(
    source_pass="last",
    unseen="zero",
    refresh_every=10,
    split_rule="fixed",
    preprocess=("row-minmax", "unit"),
    beta_rule="ln 2",
    lam=0.1,
    eigenvectors="unit",
    preset="authors",
)

PAPER = Reading(
    tau="printed",
    source_pass="average",
    target_mean="stream",
    unseen="skip",
    refresh_every=10,
    preprocess=("zscore",),
    projected="plain",
    beta_rule="ln 2n",
    inverse="pinv",
    guarantee="theorem",
    eigenvectors="unit",
    preset="paper",
)

TABLE = replace(AUTHORS, lam=1.0, preset="table")
TABLE_BASELINES = replace(TABLE, preprocess=("row-minmax",), source_pass="average", preset="table-baselines")

# the last one is what "table" means for the rows of the table that did not come from the released code and its features
READINGS = {"general": GENERAL, "authors": AUTHORS, "paper": PAPER, "table": TABLE, "table-baselines": TABLE_BASELINES}
NAMES = ("general", "authors", "paper", "table")
BASELINES = ("pa", "paio", "homotl-1", "homotl-2", "homotlms")


def reading_of(reading: str | Reading, method: str = "", **changes: Any) -> Reading:
    """The reading that a name means for a method, or a reading itself, with some of its answers changed.

    >>> reading_of("authors", lam=1.0).lam, reading_of("table", "paio").preprocess
    (1.0, ('row-minmax',))
    """
    if not isinstance(reading, Reading):
        if reading not in READINGS:
            raise unknown("reading", reading, NAMES)
        reading = READINGS["table-baselines" if reading == "table" and method in BASELINES else reading]
    known = [field.name for field in fields(Reading) if field.name != "preset"]
    for name in changes:
        if name not in known:
            raise unknown("answer of a reading", name, known)
    return replace(reading, **changes)


def as_table() -> list[dict[str, Any]]:
    """Every option with its value in each reading, for printing.

    >>> as_table()[0]["authors"]
    'original'
    """
    rows = {name: asdict(READINGS[name]) for name in NAMES}
    questions = [field.name for field in fields(Reading) if field.name != "preset"]
    return [{"option": name, **{preset: row[name] for preset, row in rows.items()}} for name in questions]
