"""Series of numbers, each predicted some rows ahead: ours, two rules of one line and refitted boosting."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bench.measure import DATA, child
from bench.pages import Line
from bench.record import Row
from hedgerow import OnlineTransferRegressor
from hedgerow.comparison.tables import Table
from hedgerow.series import lagged

PAST = 0.15  # of a series: three sources by time
REFIT = 200  # labels between two fits of boosting
TIME = "time"
WHO = ("hedgerow", "last value", "seasonal last value", "sklearn boosting, refitted")
PACKAGES = {  # of a series: package, file in it, columns of time and number
    "seattle-temps": ("vega_datasets", "_data/seattle-temps.csv", "date", "temp"),
    "co2": ("statsmodels", "datasets/co2/co2.csv", "date", "co2"),
    "water-flow": ("river", "datasets/water-flow.csv", "Time", "Water flow [l/s]"),
}
SERIES = {  # rows of a season, which is the second horizon
    "nswdemand": 48, "temperature": 30, "seattle-temps": 24, "co2": 52, "water-flow": 24,
}  # fmt: skip
Array = np.ndarray[Any, Any]


class Series(NamedTuple):
    """Rows that are known in advance, and the numbers."""

    X: pd.DataFrame
    y: Array


def series_of(name: str) -> Series:
    """One of SERIES; a number that is missing is the one before it."""
    if name == "temperature":  # days of a file that has no calendar
        y = _read("weather")["temperature"]
        return Series(pd.DataFrame({"row": np.zeros(len(y))}), y.to_numpy(float))
    if name == "nswdemand":
        data = _read("elec2")
        when = pd.date_range("1996-05-07", periods=len(data), freq="30min").to_series()
        y = data[name]
    else:
        package, file, column, number = PACKAGES[name]
        folder = Path(find_spec(package).origin).parent  # type: ignore[union-attr, arg-type]
        data = pd.read_csv(folder / file, dtype={column: str})
        when = pd.to_datetime(data[column], format="mixed", utc=True)
        y = data[number].ffill()
    return Series(
        pd.DataFrame({TIME: when.dt.strftime("%Y-%m-%dT%H:%M").to_numpy()}), y.to_numpy(float)
    )


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(DATA or "") / "streams" / f"{name}.csv.gz")


def fitted(series: Series, begin: int, ahead: int) -> OnlineTransferRegressor:
    """Ours, which knows the first rows."""
    domain = np.searchsorted(np.linspace(0, begin, 4)[1:-1], np.arange(begin), side="right")
    table = {TIME: [TIME]} if TIME in series.X else None
    reg = OnlineTransferRegressor(ahead=ahead, table=table)
    return reg.fit(series.X[:begin], series.y[:begin], sample_domain=domain)


def boosting(series: Series, begin: int, ahead: int) -> Array:
    """Boosting of the columns and lags that ours has, fitted again on all labels that are known."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    reg = fitted(series, begin, ahead)
    y = series.y
    X = lagged(reg.as_matrix(series.X), y, np.arange(len(y)), reg.learner_.plan.lags)
    p = np.empty(len(y))
    for a in range(begin, len(y), REFIT):
        known = a - ahead + 1
        model = HistGradientBoostingRegressor(random_state=0).fit(X[:known], y[:known])
        p[a : a + REFIT] = model.predict(X[a : a + REFIT])
    return p[begin:]


def cell(name: str, who: str, ahead: int, rows: int) -> dict[str, Any]:
    """The figures of one run."""
    warnings.simplefilter("ignore")
    X, y = series_of(name)
    begin = int(PAST * len(y))
    series = Series(X[: begin + rows], y[: begin + rows])
    truth = series.y[begin:]
    began = time.process_time()
    figures = {}
    if who == "hedgerow":
        rows_to_come = series.X[begin:].reset_index(drop=True)
        trace = fitted(series, begin, ahead).trace_then_learn(rows_to_come, truth)
        p = trace.predictions
        figures["coverage"] = np.mean(np.abs(p - truth) <= trace.half[:, 0])
    elif who.startswith("sklearn"):
        p = boosting(series, begin, ahead)
    else:
        season = SERIES[name] if who.startswith("seasonal") else 1
        back = season * -(-ahead // season) if season > 1 else ahead
        p = y[begin - back : begin - back + len(truth)]
    return {
        "RMSE": np.sqrt(np.mean((p - truth) ** 2)) / truth.std(), **figures, "rows": len(truth),
        "s": time.process_time() - began,
    }  # fmt: skip


def ahead(
    quick: bool, names: str = ",".join(SERIES), who: str = ";".join(WHO), rows: int = 3000
) -> Iterator[Row]:
    """Series in time, of which the first 15 % are three sources; numbers are predicted one row ahead and a season ahead
    (`nswdemand` of elec2: a day of half hours; `temperature` of weather: 30 days, without a calendar; seattle-temps of
    vega_datasets and WaterFlow of river: a day of hours; co2 of statsmodels: 52 weeks), labels as late. RMSE over the
    deviation of the stream, its first `rows` rows. Boosting has the same columns and lags and is fitted again every 200
    labels on all that are known. Coverage: of our 90 % intervals as they were when a row was predicted."""
    if quick:
        names, who, rows = "water-flow", "hedgerow;last value", 60
    for name in names.split(","):
        if name in PACKAGES and find_spec(PACKAGES[name][0]) is None:
            continue
        for one in who.split(";"):
            for horizon in (1, SERIES[name]):
                setting = {"series": name, "who": one, "ahead": horizon}
                asked = name, one, horizon, rows
                yield Row(setting, cell(*asked) if "value" in one else child(cell, *asked))


def ahead_page(lines: list[Line]) -> Iterator[str]:
    """RMSE of everybody, a row a series and horizon, and the coverage of ours."""
    by = {tuple(line["setting"].values()): line["figures"] for line in lines}
    who = dict.fromkeys(line["setting"]["who"] for line in lines)
    shown = []
    for name, horizon in dict.fromkeys((n, h) for n, _, h in by):
        cells = [by.get((name, one, horizon), {}) for one in who]
        own = by.get((name, WHO[0], horizon), {})
        numbers = [f"{figures['RMSE']:.3f}" if figures else "" for figures in cells]
        shown.append([name, str(horizon), *numbers, f"{own['coverage']:.3f}" if own else ""])
    yield ""
    yield from Table("", "", ["series", "ahead", *who, "coverage"], shown).markdown().splitlines()
