"""
How large, how many mistakes
============================

``size="small"`` and ``rank`` bound what a model keeps, and ``hedgerow-linear`` leaves out what cannot be merged. What
that costs depends on the data; this is one stream of digits.
"""

from hedgerow import OnlineTransferClassifier, load, split

domains = load("digits")
warmup, stream = split(domains["shifted"], warmup=0.3, seed=0)
sources = [domain for name, domain in domains.items() if name != "shifted"]
choices = {
    "hedgerow": {},
    'hedgerow, size="small"': {"size": "small"},
    "hedgerow, rank=16": {"rank": 16},
    "hedgerow-linear": {"method": "hedgerow-linear"},
    "homotlms": {"method": "homotlms"},
}
print(f"{'':24s}{'mistakes':>10s}{'megabytes':>11s}")
for name, options in choices.items():
    clf = OnlineTransferClassifier(**options).fit_domains(sources, warmup)
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    print(f"{name:24s}{wrong.mean():10.1%}{len(clf.to_bytes()) / 1e6:11.2f}")
