"""
Delayed labels
==============

A label may arrive long after its prediction. Store the row and learn it when its label arrives. The cost of a delay is
paid at the start: until the first label only the sources predict.
"""

from collections import deque

import matplotlib.pyplot as plt

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]


def mistakes(delay):
    clf = OnlineTransferClassifier("hedgerow-linear").fit_domains(sources, warmup)
    waiting, wrong = deque(), 0
    for x, label in zip(stream.X, stream.y, strict=True):
        wrong += clf.predict_one(x) != label
        waiting.append((x, label))
        if len(waiting) > delay:
            clf.learn_one(*waiting.popleft())
    return wrong / len(stream)


delays = (0, 10, 50, 100, 200)
rates = [mistakes(delay) for delay in delays]
figure, panel = plt.subplots()
panel.plot(delays, [100 * rate for rate in rates], marker="o")
panel.set(xlabel="rows between a prediction and its label", ylabel="mistakes, %", ylim=(0, None))

# %%
# Where predictions and labels travel apart, by ids and through crashes, :doc:`/docs/live` keeps the rows for you.
