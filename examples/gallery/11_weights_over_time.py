"""
Expert weights over time
========================

Hedge multiplies the weight of an expert by beta at each of its mistakes. At first the source experts dominate, later
those that learn from the target.
"""

import matplotlib.pyplot as plt

from hedgerow import OnlineTransferClassifier, PaperOptions, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
clf = OnlineTransferClassifier("oddm", options=PaperOptions(reading="general")).fit_domains(
    sources, warmup
)
trace = clf.explain_then_learn(stream.X, stream.y)

figure, panel = plt.subplots()
panel.stackplot(range(1, len(stream) + 1), trace.weights.T, labels=clf.expert_names_, alpha=0.85)
panel.set(xlabel="labels so far", ylabel="weight", xlim=(1, len(stream)), ylim=(0, 1))
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)

# %%
# What happened, and what was guaranteed:

print(
    f"{clf.mistakes_:.0f} mistakes in {clf.seen_} labels; {clf.guarantee_}: at most {clf.bound_:.0f}"
)
