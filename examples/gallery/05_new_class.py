"""
A new class in the stream
=========================

No source has the digit 9. Its first label in the stream makes it a class, which is learned like the others from then
on.
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [
    d.rows(np.flatnonzero(np.asarray(d.y) != 9)) for name, d in domains.items() if name != "shifted"
]

clf = OnlineTransferClassifier().fit_domains(sources, warmup)
print("before the stream:", clf.classes_.tolist())
found = clf.predict_then_learn(stream.X, stream.y)
print("after the stream: ", clf.classes_.tolist())

nines = np.flatnonzero(stream.y == 9)
print(
    f"the first nine is row {nines[0]}, the first that is recognised is row {nines[found[nines] == 9][0]}"
)

# %%
# How many of the nines so far were recognised:

figure, panel = plt.subplots()
panel.step(
    np.arange(1, len(nines) + 1), np.cumsum(found[nines] == 9), where="post", label="recognised"
)
panel.plot([1, len(nines)], [1, len(nines)], color="gray", linestyle=":", label="all of them")
panel.set(xlabel="nines in the stream", ylabel="recognised so far")
panel.legend()
