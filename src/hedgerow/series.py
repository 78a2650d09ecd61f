"""A series of numbers as rows: behind the columns of each the numbers so many rows before it, its *lags*.

The newest lag is that of the number that is known when the row is predicted, `ahead` rows before it. Others are around
the turns of a time column: an hour of the day, a day of the week or of the year.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.errors import InputError
from hedgerow.tables import PERIODS, Date, TableEncoder

NEWEST = 4  # lags that need no season
LONGEST = 900  # rows of a lag: a model keeps 1000


def lags_of(ahead: int, seasons: Sequence[float]) -> tuple[int, ...]:
    """The newest numbers that are known, and those around the last turn of each season (in rows).

    >>> lags_of(2, [7.0])
    (2, 3, 4, 5, 6, 7, 8)
    """
    lags = set(range(ahead, ahead + NEWEST))
    for season in seasons:
        turn = round(season * ceil(ahead / season))
        lags |= {turn - 1, turn, turn + 1}
    return tuple(sorted(lag for lag in lags if ahead <= lag <= LONGEST))


def seasons_of(table: TableEncoder | None, X: Matrix) -> list[float]:
    """How many of these rows are between two equal times of a day, a week or a year, of the first time column."""
    if table is None or X.shape[0] < 2:
        return []
    at = 0
    for column in table.columns:
        if isinstance(column, Date):
            step = float(np.median(np.diff(dense(X)[:, at]))) * PERIODS["hour"]
            return [PERIODS[turn] / step for turn in column.turns] if step > 0 else []
        at += len(column.names)
    return []


def lagged(X: Matrix, series: Array, at: Array, lags: Sequence[int]) -> Array:
    """Rows of which each stands at a place of the series, with its lags; NaN before its beginning.

    >>> lagged(np.zeros((2, 1)), np.array([5.0, 6.0]), np.array([1, 2]), (1, 2)).tolist()
    [[0.0, 5.0, nan], [0.0, 6.0, 5.0]]
    """
    places = at[:, None] - np.array(lags, int)
    there = places >= 0
    columns = np.full(places.shape, np.nan)
    columns[there] = series[places[there]]
    return np.hstack([dense(X).astype(np.float64), columns])


def check_ahead(ahead: object) -> None:
    """Refuse what is no number of rows."""
    if ahead is not None and not (type(ahead) is int and 1 <= ahead <= LONGEST - NEWEST):
        raise InputError(
            f"ahead={ahead!r}: how many rows ahead a number is predicted, a whole number from 1 to {LONGEST - NEWEST}; "
            "None is for rows that are no series"
        )
