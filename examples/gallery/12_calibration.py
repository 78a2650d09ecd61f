"""
Calibration
===========

Of the rows predicted with probability 0.8, 80 per cent should be right. Our learner's mixture is calibrated without a
further step; the softmax of the scores of the paper's methods is not.
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
figure, panel = plt.subplots(figsize=(4.6, 3.8))
panel.plot([0, 1], [0, 1], color="gray", linestyle=":")
for method in ("hedgerow", "homotlms"):
    sure, right = [], []
    for target in domains:  # each style in turn is the new one
        warmup, stream = split(domains[target], warmup=0.3, seed=0)
        clf = OnlineTransferClassifier(method).fit_domains(
            [d for n, d in domains.items() if n != target], warmup
        )
        trace = clf.explain_then_learn(stream.X, stream.y)
        sure.append(trace.probabilities.max(axis=1))
        right.append(trace.labels == stream.y)
    sure, right = np.concatenate(sure), np.concatenate(right)
    bins = np.minimum((10 * sure).astype(int), 9)
    used = [b for b in range(10) if (bins == b).sum() >= 20]
    said, came = ([values[bins == b].mean() for b in used] for values in (sure, right))
    error = sum(
        (bins == b).mean() * abs(sure[bins == b].mean() - right[bins == b].mean())
        for b in np.unique(bins)
    )
    panel.plot(said, came, marker="o", label=f"{method}: calibration error {error:.3f}")
panel.set(
    xlabel="probability of the prediction", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1)
)
panel.legend(loc="lower right", fontsize=8)
