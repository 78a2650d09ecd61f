"""How far each source is from the target before and after alignment, in numbers that can be compared.

    D(A) = sum_k |A^T g_k|^2 / tr cov(A^T x),   x a target row,   A = I before

g_0 is the gap between the overall means, g_k between those of class k, by the aligner's pseudo-labels where it made
some. Dividing by the target's own variance takes out the scale of A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import dense
from hedgerow.core.domains import Domain
from hedgerow.core.labels import Codes
from hedgerow.core.moments import Moments, discrepancy, gap
from hedgerow.core.preprocess import Preprocess
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.estimator.table_rows import numbers_of


@dataclass(frozen=True)
class Separation:
    """D before and after alignment; NaN where it is not defined (no target rows, a kernel space, no aligner)."""

    source: str
    before: float = float("nan")
    after: float = float("nan")


def separations(clf: OnlineTransferClassifier, sources: Sequence[Domain], target: Domain | None) -> list[Separation]:
    """One for each source of a classifier just fitted on these domains.

    >>> rng = np.random.default_rng(0)
    >>> s = Domain("s", rng.normal(size=(60, 4)) + [3, 0, 0, 0], np.arange(60) % 2)
    >>> t = Domain("t", rng.normal(size=(40, 4)))
    >>> clf = OnlineTransferClassifier("oddm", preprocess=(), dim=2).fit_domains([s], t)
    >>> [d] = separations(clf, [s], t)
    >>> d.after < d.before
    True
    """
    if target is None or len(target) < 2:
        return [Separation(source.name) for source in sources]
    learner = clf.learner_
    K, codes = learner.n_classes, Codes(clf.classes_)
    Xs, U = Preprocess(learner.plan.steps).start(
        [numbers_of(clf.table_, s) for s in sources], numbers_of(clf.table_, target)
    )
    rows, linear = dense(U), bool(clf.info_) and not learner.plan.gammas
    found = []
    for i, (source, X) in enumerate(zip(sources, Xs, strict=True)):
        shared = len(clf.info_) != len(sources)
        there = Moments.of(U, clf.info_[0 if shared else i].pseudo_labels if clf.info_ else None, K)
        before = gap(Moments.of(X, codes.of(np.asarray(source.y)), K), there)
        after = gap(learner.source(i), there)  # of the source as the aligner moved it
        A = learner.projection(i) if linear else None
        d = [discrepancy(a, g) / max(_variance(rows, a), 1e-300) for a, g in ((None, before), (A, after))]
        found.append(Separation(source.name, d[0], d[1] if linear else float("nan")))
    return found


def _variance(rows: np.ndarray, A: np.ndarray | None) -> float:
    return float((rows if A is None else rows @ A).var(axis=0).sum())
