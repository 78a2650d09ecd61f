"""
Reviews of other products
=========================

Is a review good or bad? Three kinds of products have labels, kitchen things are new. Rows are counts of words, given
as a sparse matrix. (Needs the data set amazon-reviews: ``hedgerow data`` says where to get it.)
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array

from hedgerow import Domain, OnlineTransferClassifier, load, split

reviews = load("amazon-reviews")
sparse = {name: Domain(name, csr_array(domain.X), domain.y) for name, domain in reviews.items()}
warmup, stream = split(sparse.pop("kitchen"), warmup=0.3, seed=0)
print(
    f"{len(stream)} reviews, {stream.X.shape[1]} words, {stream.X.nnz / len(stream):.0f} of them in a review"
)

figure, panel = plt.subplots()
for method in ("hedgerow-linear", "homotl-2", "pa"):
    clf = OnlineTransferClassifier(method).fit_domains(list(sparse.values()), warmup)
    wrong = clf.predict_then_learn(stream.X, stream.y) != stream.y
    panel.plot(
        100 * np.cumsum(wrong) / np.arange(1, len(wrong) + 1),
        label=f"{method}: {100 * wrong.mean():.1f} %",
    )
panel.set(xlabel="reviews so far", ylabel="mistakes so far, %", ylim=(0, 50))
panel.legend()
