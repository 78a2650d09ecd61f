"""
Missing labels
==============

Most rows are never labelled. With ``learn_one(x, None)`` our learner uses them as unlabelled rows: they update the
running mean and are pseudo-labelled in the pool. The alternative is to skip them. Each style of the digits is the
target in turn; the gain depends on the data (:doc:`/docs/streams`).
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
print(
    f"{'':10s}{'told':>8s}{'left out':>10s}{'every label':>13s}   mistakes, one label in five comes"
)
table = []
for target in domains:
    warmup, stream = split(domains[target], warmup=0.3, seed=0)
    sources = [domain for name, domain in domains.items() if name != target]
    known = np.random.default_rng(0).random(len(stream)) < 0.2
    fitted = OnlineTransferClassifier().fit_domains(sources, warmup).to_bytes()
    rates = []
    for told, comes in ((True, known), (False, known), (True, np.ones(len(stream), dtype=bool))):
        clf, wrong = OnlineTransferClassifier.from_bytes(fitted), 0
        for x, label, there in zip(stream.X, stream.y, comes, strict=True):
            wrong += clf.predict_one(x) != label
            if there:
                clf.learn_one(x, label)
            elif told:
                clf.learn_one(x, None)
        rates.append(wrong / len(stream))
    table.append(rates)
    print(f"{target:10s}{rates[0]:8.1%}{rates[1]:10.1%}{rates[2]:13.1%}")

# %%
# The same as a picture:

figure, panel = plt.subplots()
for place, (name, column) in enumerate(
    zip(("told", "left out", "every label"), np.transpose(table), strict=True)
):
    panel.bar(np.arange(len(domains)) + 0.27 * (place - 1), 100 * column, width=0.25, label=name)
panel.set(ylabel="mistakes, %", xticks=range(len(domains)), xticklabels=list(domains))
panel.legend(ncols=3)
