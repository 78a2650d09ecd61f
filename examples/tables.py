"""From one CSV file to a decision: hotel bookings of a new season, against boosting that is refitted.

    HEDGEROW_DATA=/path/to/data python examples/tables.py [FOLDER]

Cuts the table `hotel` along its column `domain` into files for the command line (docs/tables.md), runs the stream, and
draws the error rate over it. The table is in the folder `tables` of HEDGEROW_DATA.
"""

import os
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from hedgerow import OnlineTransferClassifier, read

mpl.use("agg")
import matplotlib.pyplot as plt

SOURCES, TARGET, ROWS, REFIT = ("Q1", "Q2", "Q4"), "Q3", 1500, 50


def cut(folder):
    """One file a source; the first 30 % of the target without labels; the rest, the stream."""
    table = pd.read_csv(Path(os.environ["HEDGEROW_DATA"]) / "tables" / "hotel.csv.gz").rename(
        columns={"label": "rate"}
    )
    parts = {
        name: rows.drop(columns="domain").sample(ROWS, random_state=0)
        for name, rows in table.groupby("domain")
    }
    folder.mkdir(exist_ok=True)
    for name in SOURCES:
        parts[name].to_csv(folder / f"{name}.csv", index=False)
    known = int(0.3 * ROWS)
    parts[TARGET][:known].drop(columns="rate").to_csv(folder / "Q3-known.csv", index=False)
    parts[TARGET][known:].to_csv(folder / "Q3.csv", index=False)


def boosting(sources, stream):
    """Fitted on the sources and the labels so far, which count five times and are marked, every 50 labels again."""
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=255
    )
    stream, predicted = stream.assign(new=1), np.empty(len(stream), dtype=object)
    for begin in range(0, len(stream), REFIT):
        rows = pd.concat([*(source.assign(new=0) for source in sources), stream[:begin]])
        text = make_column_transformer(
            (codes, make_column_selector(dtype_exclude="number")), remainder="passthrough"
        )
        model = make_pipeline(text, HistGradientBoostingClassifier(random_state=0))
        weights = np.where(rows["new"], 5.0, 1.0)
        model.fit(
            rows.drop(columns="rate"),
            rows["rate"],
            histgradientboostingclassifier__sample_weight=weights,
        )
        predicted[begin : begin + REFIT] = model.predict(
            stream.drop(columns="rate")[begin : begin + REFIT]
        )
    return predicted


def majority(truth):
    """The most frequent label so far."""
    return np.array([pd.Series(truth[:t]).mode()[0] if t else "" for t in range(len(truth))])


def main(folder):
    """Print the error rates, draw the curves."""
    cut(folder)
    sources, stream = (
        [pd.read_csv(folder / f"{name}.csv") for name in SOURCES],
        pd.read_csv(folder / "Q3.csv"),
    )
    truth, rows = stream["rate"].to_numpy(), stream.drop(columns="rate")

    domains = [read(folder / f"{name}.csv", label="rate") for name in SOURCES]
    clf = OnlineTransferClassifier().fit_domains(domains, read(folder / "Q3-known.csv"))
    wrong = {
        "hedgerow": clf.predict_then_learn(rows, truth) != truth,
        "boosting, refitted every 50 labels": boosting(sources, stream) != truth,
        "the most frequent label so far": majority(truth) != truth,
    }
    figure, panel = plt.subplots(figsize=(7, 3.6), layout="constrained")
    labels = np.arange(1, len(stream) + 1)
    for name, each in wrong.items():
        print(
            f"{name:35s} {each.mean():.1%} mistakes on {len(each)} rows, {each[:100].mean():.0%} on the first 100"
        )
        panel.plot(labels, 100 * np.cumsum(each) / labels, label=name)
    panel.set(xlabel="labels", ylabel="prequential error, %", ylim=(0, 60))
    panel.legend(frameon=False)
    figure.savefig(folder / "tables.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "bookings"))
