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

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from hedgerow.core.errors import InputError, unknown
from hedgerow.core.rule_numbers import UNSEEN


@dataclass(frozen=True)
class Reading:
    """One answer to each of the twelve questions, and to the two that go with them."""

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
)

TABLE = replace(AUTHORS, lam=1.0)
TABLE_BASELINES = replace(TABLE, preprocess=("row-minmax",), source_pass="average")

READINGS = {"general": GENERAL, "authors": AUTHORS, "paper": PAPER, "table": TABLE}
# the rows of the table that did not come from the released code and its features; a method of one's own gets those
BASELINES = ("pa", "paio", "homotl-1", "homotl-2", "homotlms")

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


def resolve(reading: str, method: str, **overrides: Any) -> Reading:
    """The preset for a method with whatever was set by hand; None means "as the reading says".

    >>> resolve("authors", "oddm", lam=1.0, unseen=None).lam
    1.0
    >>> resolve("table", "paio").preprocess
    ('row-minmax',)
    """
    if reading not in READINGS:
        raise unknown("reading", reading, READINGS)
    base = TABLE_BASELINES if reading == "table" and method in BASELINES else READINGS[reading]
    given = {name: value for name, value in overrides.items() if value is not None}
    known = {field.name for field in fields(Reading)}
    for name, value in given.items():
        if name not in known:
            raise unknown("option", name, known)
        if name in CHOICES and value not in CHOICES[name]:
            raise unknown(f"value of {name}", value, CHOICES[name])
    chosen = replace(base, **given)
    if chosen.refresh_every < 1 or int(chosen.refresh_every) != chosen.refresh_every:
        raise InputError(f"refresh_every={chosen.refresh_every}: must be a whole number of labels, at least 1")
    if not chosen.lam > 0:
        raise InputError(f"lam={chosen.lam}: the ridge of the aligner must be positive")
    return chosen


def as_table() -> list[dict[str, Any]]:
    """Every option with its value in each reading, for printing.

    >>> as_table()[0]["authors"]
    'original'
    """
    rows = {name: asdict(reading) for name, reading in READINGS.items()}
    return [{"option": f.name, **{name: row[f.name] for name, row in rows.items()}} for f in fields(Reading)]
