"""
Explain one prediction
======================

``explain_one`` returns a prediction with its probabilities, the vote of each expert and its weight. The weights
are those of the Bayes mixture; the stacks beside it combine the scores of all experts, so the prediction may differ
from that of the expert with the largest weight.
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
clf = OnlineTransferClassifier().fit_domains(sources, warmup)
clf.partial_fit(stream.X[:150], stream.y[:150])

rest = slice(150, None)
doubtful = 150 + int(
    clf.predict_proba(stream.X[rest]).max(axis=1).argmin()
)  # the row that it is least sure of
why = clf.explain_one(stream.X[doubtful])
print(f"row {doubtful}: predicted {why.label}, its label is {stream.y[doubtful]}")

figure, (left, right) = plt.subplots(1, 2, width_ratios=[1, 3])
left.imshow(stream.X[doubtful].reshape(8, 8), cmap="gray_r")
left.set(xticks=[], yticks=[])
right.bar([str(label) for label in why.probabilities], list(why.probabilities.values()))
right.set(ylabel="probability", ylim=(0, 1))

# %%
# How many of the experts would have said what, alone:

said, counts = np.unique([str(vote) for vote in why.votes.values()], return_counts=True)
for label, count in zip(said, counts, strict=True):
    print(f"{label}: {count} of {len(why.votes)} experts")
trusted = max(why.weights, key=why.weights.get)
print(
    f"most trusted: {trusted}, with {why.weights[trusted]:.0%} of the weight; it says {why.votes[trusted]}"
)
