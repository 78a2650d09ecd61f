"""A method of one's own in one file: a new aligner and a new row of the table of methods.

python examples/own_method.py                                     # uses it
python -m reproduction --plugin examples/own_method.py --methods pca,oddm --tasks dslr --trials 3 --out out/mine
"""

from dataclasses import dataclass

import numpy as np

from hedgerow import OnlineTransferClassifier, Recipe, load, split
from hedgerow.extend import Alignment, Info, Projection, dense, register_aligner
from hedgerow.testing import check_aligner


@dataclass(frozen=True)
class PCA:
    """The leading principal axes of source and target together."""

    dim: int = 100

    def fit(self, source: np.ndarray, codes: np.ndarray, target: np.ndarray) -> Alignment:
        rows = np.vstack(
            [dense(source), dense(target)]
        )  # they may be sparse, and there may be no target rows
        _, values, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        kept = int(min(self.dim, (values > 1e-10 * values[0]).sum()))
        return Alignment(Projection(axes[:kept].T), Info(rank=kept))


register_aligner("pca", PCA)
pca = Recipe("PCA", "per-source", aligner="pca", frozen="each", online="zero", mixer="hedge")

if __name__ == "__main__":
    check_aligner(PCA(dim=3))  # the laws that every aligner obeys

    domains = load("digits")
    warmup, stream = split(domains["thin"], seed=0)  # shuffles; seed=None keeps an order in time
    sources = [domain for name, domain in domains.items() if name != "thin"]
    for method in (pca, "oddm"):
        clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
        wrong = (clf.predict_then_learn(stream.X, stream.y) != stream.y).mean()
        print(f"{clf.method_}: {wrong:.1%} mistakes")
