"""The picture of README.md and docs/results.md: mistakes along a stream of digits: boosting, the paper's method, ours.

python docs/curves.py [PICTURE]          docs/curves.png without a name; some minutes

Four styles of the embedded digits are the sources, the style `shifted` streams in five orders. The usual answer is
scikit-learn's histogram gradient boosting with default settings, fitted on the sources and again after every 50 labels;
rows of the new style count five times. Prints the share of mistakes of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from hedgerow import Domain, OnlineTransferClassifier, load, split

ORDERS = 5
REFIT = 50
TIMES = 5.0  # what a row of the new style counts in boosting
LINES = {
    "gradient boosting, refitted every 50 labels": ("#8a8a8a", "--"),
    "the paper's method (HomOTL-ODDM)": ("#d17a00", "-."),
    "hedgerow": ("#1a7f4b", "-"),
}


def boosting(sources: list[Domain], X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Predictions of boosting, fitted again and again."""
    known = np.vstack([source.X for source in sources])
    labels = np.concatenate([source.y for source in sources])
    predictions = np.empty_like(y)
    for begin in range(0, len(X), REFIT):
        rows = np.vstack([known, X[:begin]])
        weight = np.append(np.ones(len(known)), np.full(begin, TIMES))
        model = HistGradientBoostingClassifier(random_state=0)
        model.fit(rows, np.append(labels, y[:begin]), sample_weight=weight)
        predictions[begin : begin + REFIT] = model.predict(X[begin : begin + REFIT])
    return predictions


def wrong() -> dict[str, np.ndarray]:
    """Orders x rows of each line: whether the row was predicted wrongly."""
    domains = load("digits")
    warmup, stream = split(domains.pop("shifted"), warmup=0.3, seed=0)
    sources = list(domains.values())
    fitted = {
        name: OnlineTransferClassifier(method).fit_domains(sources, warmup).to_bytes()
        for name, method in zip(list(LINES)[1:], ("oddm", "hedgerow"), strict=True)
    }
    mistakes: dict[str, list[np.ndarray]] = {name: [] for name in LINES}
    for order in range(ORDERS):
        rows = np.random.default_rng(order).permutation(len(stream))
        X = stream.X[rows]
        y = stream.y[rows]
        for name in LINES:
            if name in fitted:
                clf = OnlineTransferClassifier.from_bytes(fitted[name])
                predicted = clf.predict_then_learn(X, y)
            else:
                predicted = boosting(sources, X, y)
            mistakes[name].append(predicted != y)
    return {name: np.array(each) for name, each in mistakes.items()}


def main() -> None:
    """The picture, and the figures."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("curves.png")
    figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    for name, each in wrong().items():
        colour, style = LINES[name]
        labels = np.arange(1, each.shape[1] + 1)
        so_far = 100 * np.cumsum(each, axis=1) / labels
        (line,) = axes.plot(labels[9:], so_far.mean(axis=0)[9:], style, color=colour, linewidth=2.2)
        end = so_far[:, -1].mean()
        line.set_label(f"{name}: {end:.0f} %")
        print(f"{name}: {end:.1f} % mistakes, {100 * each[:, :50].mean():.1f} % in the first 50")
    axes.set(xlabel="labels of the new domain so far", ylabel="mistakes so far, %", ylim=(0, None))
    axes.set_xlim(1, None)
    axes.legend(loc="upper right", frameon=False, labelcolor="linecolor")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    main()
