"""
Model size and error rate
=========================

``rank`` bounds the size of a model, and ``hedgerow-linear`` has only mergeable statistics. The cost
in accuracy depends on the data; this is one stream of digits.
"""

import matplotlib.pyplot as plt

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
choices = {
    "hedgerow": {},
    "hedgerow, rank=16": {"rank": 16},
    "hedgerow-linear": {"method": "hedgerow-linear"},
    "homotlms": {"method": "homotlms"},
}
print(f"{'':24s}{'mistakes':>10s}{'megabytes':>11s}")
figure, panel = plt.subplots()
for name, options in choices.items():
    clf = OnlineTransferClassifier(**options).fit_domains(sources, warmup)
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    size = len(clf.to_bytes()) / 1e6
    panel.scatter(size, 100 * wrong.mean())
    panel.annotate(name, (size, 100 * wrong.mean()), xytext=(6, 4), textcoords="offset points")
    print(f"{name:24s}{wrong.mean():10.1%}{size:11.2f}")
panel.set(xlabel="model file, megabytes", ylabel="mistakes, %", xlim=(0, 1.9), ylim=(0, 25))
