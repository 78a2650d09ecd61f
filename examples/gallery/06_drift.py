"""
Abrupt drift
============

Halfway the stream switches to another style, of which there was neither a source nor a warm-up. The error rate in a
window of 40 rows shows the cost of the change and how fast the model recovers.
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, before = split(domains["shifted"], warmup=0.3, seed=0)
_, after = split(domains["thin"], warmup=0.3, seed=0)
X, y = np.vstack([before.X, after.X]), np.r_[before.y, after.y]
sources = [domains[name] for name in ("tilted", "faded")]

figure, panel = plt.subplots()
for method in ("hedgerow", "oddm", "paio"):
    clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    wrong = clf.predict_then_learn(X, y) != y
    window = np.convolve(wrong, np.ones(40) / 40, mode="valid")
    halves = wrong[: len(before)].mean(), wrong[len(before) :].mean()
    print(f"{method:9s} {halves[0]:.1%} mistakes before the change, {halves[1]:.1%} after it")
    panel.plot(np.arange(40, len(y) + 1), 100 * window, label=method)
panel.axvline(len(before), color="gray", linestyle=":", label="the change")
panel.set(xlabel="labels so far", ylabel="mistakes in the last 40, %", ylim=(0, None))
panel.legend()
