"""
The first prediction
====================

Four styles of handwriting have labels, a fifth starts to stream. Before it has a single label the model predicts it
from the other four; then every label makes it better. A model without sources starts by guessing.
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(
    domains["shifted"], warmup=0.3, seed=0
)  # shuffles; seed=None keeps an order in time
sources = [domain for name, domain in domains.items() if name != "shifted"]

figure, axes = plt.subplots(1, 5, figsize=(7, 1.7))
for panel, (name, domain) in zip(axes, domains.items(), strict=True):
    panel.imshow(domain.X[3].reshape(8, 8), cmap="gray_r")
    panel.set(title=name, xticks=[], yticks=[])

# %%
# Each row is predicted, then its label is learned. `pa` is the same stream without any source.

transfer = OnlineTransferClassifier().fit_domains(sources, warmup)
alone = OnlineTransferClassifier("pa").fit_domains(sources, warmup)
figure, panel = plt.subplots()
for name, clf in {"hedgerow, with four sources": transfer, "PA, from nothing": alone}.items():
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    print(
        f"{name}: {wrong[:20].sum()} mistakes in the first 20 rows, {wrong.mean():.1%} of all {len(wrong)}"
    )
    panel.plot(np.cumsum(wrong) / np.arange(1, len(wrong) + 1), label=name)
panel.set(xlabel="labels so far", ylabel="mistakes so far, share", ylim=(0, 1))
panel.legend()
