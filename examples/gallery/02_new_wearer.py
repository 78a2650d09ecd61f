"""
A new wearer of a watch
=======================

Ten people wore a watch during shoulder exercises. Nine are the sources, the tenth is new. The weight of each source is
learned from the labels of the new wearer.
"""

import matplotlib.pyplot as plt
import numpy as np
from seglearn.datasets import load_watch

from hedgerow import Domain, OnlineTransferClassifier, split

data = load_watch()  # acceleration and rotation in three axes each, 50 samples a second
rows, labels = {}, {}
for series, exercise, wearer in zip(data["X"], data["y"], data["subject"], strict=True):
    cut = series[: len(series) // 100 * 100].reshape(-1, 100, 6)  # windows of two seconds
    steps = np.abs(np.diff(cut, axis=1)).mean(axis=1)
    rows.setdefault(wearer, []).append(
        np.hstack([cut.mean(1), cut.std(1), cut.min(1), cut.max(1), steps])
    )
    labels.setdefault(wearer, []).extend([data["y_labels"][exercise]] * len(cut))
wearers = {
    name: Domain(f"wearer {name}", np.vstack(parts), labels[name]) for name, parts in rows.items()
}
print({int(name): len(domain) for name, domain in wearers.items()}, "windows a wearer")

# %%
# Wearer 2 is the new one. A curve is mistakes in per cent of the labels so far.

warmup, stream = split(wearers.pop(2), warmup=0.3, seed=0)
figure, panel = plt.subplots()
for method in ("hedgerow", "hedgerow-linear", "homotlms", "pa"):
    clf = OnlineTransferClassifier(method).fit_domains(list(wearers.values()), warmup)
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    panel.plot(
        100 * np.cumsum(wrong) / np.arange(1, len(wrong) + 1),
        label=f"{method}: {100 * wrong.mean():.1f} %",
    )
panel.set(xlabel="labels of the new wearer", ylabel="mistakes so far, %", ylim=(0, 60))
panel.legend()
