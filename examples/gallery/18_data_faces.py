"""
Faces in another pose
=====================

68 people, five poses: four are the sources, the fifth is new. With so many classes most have no label yet for a long
time, and a map of the whole domain has to serve them all. (Needs the data set pie: ``hedgerow data`` says where to
get it.)
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("pie")
figure, axes = plt.subplots(1, 5, figsize=(7, 1.7))
for panel, (name, domain) in zip(axes, domains.items(), strict=True):
    panel.imshow(np.asarray(domain.X[0]).reshape(32, 32).T, cmap="gray")
    panel.set(title=name, xticks=[], yticks=[])

# %%
# The light form of our learner on two sources and 300 faces of the new pose, and PA without sources:

warmup, stream = split(domains["PIE4"], warmup=0.3, seed=0)
sources = [domains[name] for name in ("PIE1", "PIE5")]
stream = stream.rows(np.arange(300))
for method, options in {"hedgerow-linear": {"rank": 128}, "pa": {}}.items():
    clf = OnlineTransferClassifier(method, **options).fit_domains(sources, warmup)
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    print(
        f"{method:16s} {wrong[:50].sum()} mistakes in the first 50, {wrong.mean():.1%} of {len(wrong)}"
    )
