"""
Compare methods with a paired test
==================================

Every method runs several orders of the same stream; then Wilcoxon's signed-rank test, with Bonferroni's
correction. Orders of one split show the influence of the order, not of the data.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import wilcoxon

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
methods = ("hedgerow-linear", "oddm", "homotlms", "paio", "pa")
fitted = {
    method: OnlineTransferClassifier(method).fit_domains(sources, warmup).to_bytes()
    for method in methods
}

rates = {method: np.empty(8) for method in methods}
for order in range(8):
    rows = np.random.default_rng(order).permutation(len(stream))
    X, y = stream.X[rows], np.asarray(stream.y)[rows]
    for method in methods:
        clf = OnlineTransferClassifier.from_bytes(fitted[method])
        rates[method][order] = 100 * (clf.predict_then_learn(X, y) != y).mean()
for method, column in rates.items():
    print(f"{method:16s} {column.mean():5.1f} ± {column.std(ddof=1):.1f} %")

figure, panel = plt.subplots()
panel.boxplot(list(rates.values()), tick_labels=list(rates))
panel.set(ylabel="mistakes, %", ylim=(0, None))

# %%
# The first method against each of the others:

first, *others = methods
for other in others:
    difference = rates[first] - rates[other]
    p = min(1.0, len(others) * wilcoxon(difference).pvalue)
    print(f"{first} - {other}: {difference.mean():+.1f} points, p = {p:.3f}")
