"""
A useless source
================

The labels of one source are shuffled. The model is not told which one: experts that use it make mistakes and lose their
weight within a few labels.
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import Domain, OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
good = [domains[name] for name in ("tilted", "blurred", "faded")]
thin = domains["thin"]
useless = Domain("useless", thin.X, np.random.default_rng(0).permutation(thin.y))

for method in ("hedgerow", "homotlms", "paio"):
    rates = []
    for sources in ([*good, thin], good, [*good, useless]):
        clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
        rates.append((clf.predict_then_learn(stream.X, stream.y) != stream.y).mean())
    print(
        f"{method:9s} four good sources {rates[0]:.1%}, three {rates[1]:.1%}, three and a useless one {rates[2]:.1%}"
    )

# %%
# Who is trusted by the experts of HomOTLMS, one frozen expert a source, with the useless one among them:

clf = OnlineTransferClassifier("homotlms").fit_domains([*good, useless], warmup)
trace = clf.explain_then_learn(stream.X[:100], stream.y[:100])
figure, panel = plt.subplots()
for name, weights in zip(clf.expert_names_, trace.weights.T, strict=True):
    panel.plot(weights, label=name, linewidth=3 if "useless" in name else 1.5)
panel.set(xlabel="labels so far", ylabel="weight", ylim=(0, None))
panel.legend()
