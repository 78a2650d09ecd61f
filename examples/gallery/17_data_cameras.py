"""
The same things by another camera
=================================

Pictures from a shop, from the web and by a good camera are the sources; a webcam is new. How far apart are they, and
how many mistakes does each method make? (Needs the data set office-caltech: ``hedgerow data`` says where to get it.)
"""

import matplotlib.pyplot as plt
import numpy as np

from hedgerow import OnlineTransferClassifier, load, split

domains = load("office-caltech")
warmup, stream = split(domains.pop("webcam"), warmup=0.3, seed=0)
options = {"hedgerow-linear": {"rank": 128}}  # of 800 features: quicker, at some price in mistakes
figure, panel = plt.subplots()
for method in ("hedgerow-linear", "homotlms", "pa"):
    clf = OnlineTransferClassifier(method, **options.get(method, {})).fit_domains(
        list(domains.values()), warmup
    )
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    panel.plot(
        100 * np.cumsum(wrong) / np.arange(1, len(wrong) + 1),
        label=f"{method}: {100 * wrong.mean():.1f} %",
    )
panel.set(xlabel="pictures so far", ylabel="mistakes so far, %", ylim=(0, 100))
panel.legend()

# %%
# The distance of each source from the webcam, in means of all rows and of classes (Eq. 12):

gaps = dict(clf.discrepancy_)
for name, gap in sorted(gaps.items(), key=lambda item: item[1]):
    print(f"{name:8s} {gap:.3f}")
