"""Rows of finished runs, summarised as the numbers that tables and plots show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array

Row = dict[str, Any]  # a finished run as plain values
WINDOW = 4  # checkpoints: a tenth of a stream that has forty


@dataclass(frozen=True)
class Summary:
    """One method over all its orders. Rates are in percent; `sd` is 0 for a single order."""

    method: str
    orders: int
    n: int
    mean: float
    sd: float
    microseconds: float
    seconds_offline: float


def by_method(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows of each method, by order; methods in the order of their first row.

    >>> list(by_method([{"method": "b", "order": 1}, {"method": "a", "order": 0}, {"method": "b", "order": 0}]))
    ['b', 'a']
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["method"], []).append(row)
    return {method: sorted(group, key=lambda row: int(row["order"])) for method, group in groups.items()}


def summarise(rows: Iterable[Row]) -> dict[str, Summary]:
    """Mean and standard deviation (n - 1) of the mistake rate, median time per instance, offline time.

    >>> run = {"method": "pa", "n": 50, "seconds_online": 0.001, "seconds_offline": 0.1}
    >>> rows = [{**run, "order": 0, "mistakes": 10}, {**run, "order": 1, "mistakes": 20}]
    >>> s = summarise(rows)["pa"]
    >>> round(s.mean, 3), round(s.sd, 3), round(s.microseconds, 3)
    (30.0, 14.142, 20.0)
    """
    found = {}
    for method, group in by_method(rows).items():
        rates = np.array([100 * row["mistakes"] / max(row["n"], 1) for row in group])
        # The median, because a run that shared its core with something else says nothing about the method.
        micro = float(np.median([1e6 * row["seconds_online"] / max(row["n"], 1) for row in group]))
        spread = float(rates.std(ddof=1)) if len(rates) > 1 else 0.0
        offline = float(group[0]["seconds_offline"])
        found[method] = Summary(method, len(group), group[0]["n"], float(rates.mean()), spread, micro, offline)
    return found


def mistake_rates(group: list[Row]) -> tuple[Array, Array]:
    """Instances at the checkpoints, and the running mistake rate in percent (orders x checkpoints).

    >>> mistake_rates([{"instances": [10, 20], "labels": [10, 20], "curve": [5, 6]}])[1].tolist()
    [[50.0, 30.0]]
    """
    labels = np.maximum([row["labels"] for row in group], 1)
    return np.array(group[0]["instances"]), 100 * np.array([row["curve"] for row in group]) / labels


def windows(rows: Sequence[Row], width: int = WINDOW) -> tuple[Array, Array]:
    """Ends of the windows, and the mistakes in each in per cent (orders x windows).

    >>> windows([{"curve_at": [10, 20, 30], "curve": [5, 6, 6]}], width=1)[1].tolist()
    [[50.0, 10.0, 0.0]]
    """
    at = np.array([0, *rows[0]["curve_at"]])
    curves = np.array([[0, *row["curve"]] for row in rows if len(row["curve"]) == len(at) - 1], dtype=float)
    width = min(width, len(at) - 1)
    return at[width:], 100 * (curves[:, width:] - curves[:, :-width]) / (at[width:] - at[:-width])
