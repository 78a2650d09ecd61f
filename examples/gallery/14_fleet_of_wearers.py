"""
One model per wearer
====================

Seven wearers are the sources, three are new, and their rows arrive mixed. A fleet keeps one model per key, which stores
only what its own labels changed.
"""

import matplotlib.pyplot as plt
import numpy as np
from seglearn.datasets import load_watch

from hedgerow import Domain
from hedgerow.fleet import Fleet

data = load_watch()
rows, labels = {}, {}
for series, exercise, wearer in zip(data["X"], data["y"], data["subject"], strict=True):
    cut = series[: len(series) // 100 * 100].reshape(-1, 100, 6)
    rows.setdefault(wearer, []).append(np.hstack([cut.mean(1), cut.std(1), cut.min(1), cut.max(1)]))
    labels.setdefault(wearer, []).extend([data["y_labels"][exercise]] * len(cut))
wearers = {
    name: Domain(f"wearer {name}", np.vstack(parts), labels[name]) for name, parts in rows.items()
}
new = {f"wearer {name}": wearers.pop(name) for name in (1, 2, 3)}

keys = np.concatenate([[key] * len(domain) for key, domain in new.items()])
X = np.vstack([domain.X for domain in new.values()])
y = np.concatenate([domain.y for domain in new.values()])
mixed = np.random.default_rng(0).permutation(len(y))
keys, X, y = keys[mixed], X[mixed], y[mixed]

with Fleet(list(wearers.values()), "hedgerow-linear") as fleet:
    found = np.concatenate(
        [
            fleet.predict_then_learn(keys[i : i + 50], X[i : i + 50], y[i : i + 50])
            for i in range(0, len(y), 50)
        ]
    )
    sizes = {key: len(fleet.to_bytes(key)) for key in new}

figure, panel = plt.subplots()
for key in new:
    wrong = (found != y)[keys == key]
    panel.plot(
        100 * np.cumsum(wrong) / np.arange(1, len(wrong) + 1),
        label=f"{key}: {sizes[key] / 1000:.0f} kB",
    )
panel.set(xlabel="labels of this wearer", ylabel="mistakes so far, %", ylim=(0, 60))
panel.legend()
