"""The compiled loops of trees: which leaf a row falls into, and the scores of heads made of leaves.

All trees of a model stand one after the other, each in preorder: the left child of a node is the next one, and `right`
says how many places further the right child is. So every walk goes forward and ends. `bench/naive.py` has the plain
NumPy forms, and tests hold the two together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import FARTHEST, FLOOR, PART
from hedgerow.kernels.compiled import compiled

TRUST = 0.3  # what a row of a source counts in a leaf, against one of the target
OTHERS = 0.03  # what the rows of the other sources count in the head of one source
LARGE = 3e38  # numbers beyond are no numbers of single precision


class Trees(NamedTuple):
    """Trees over columns that are made of the numbers of a row.

    first, width: the numbers of each column; one number is itself, several are the places of a category, whose code is
    found in `codes` from `place` on: of each place with a positive and a negative number, then of none.
    starts: the root of each tree, the boosted ones first. feature (-1: a leaf), threshold, right, missing (1: gaps go
    left): the nodes; the threshold of a leaf is its value, or its number among all leaves of the forest.
    head, label: of each boosted tree; baseline: of each boosted head and class (heads x K0), where its sums start.
    counts: rows of each source and class in each leaf of the forest (leaves x sources x K0).
    """

    first: Array
    width: Array
    place: Array
    codes: Array
    starts: Array
    feature: Array
    threshold: Array
    right: Array
    missing: Array
    head: Array
    label: Array
    baseline: Array
    counts: Array


@compiled
def _columns(trees: Trees, x: Array, out: Array) -> None:
    """The columns of one row."""
    for c in range(len(out)):
        a = trees.first[c]
        width = trees.width[c]
        if width == 1:
            out[c] = x[a]
            continue
        code = 2 * width
        for j in range(width):
            if x[a + j] != 0.0:
                code = 2 * j + (1 if x[a + j] < 0.0 else 0)
        out[c] = trees.codes[trees.place[c] + code] if not np.isnan(x[a]) else np.nan


@compiled
def _leaf(trees: Trees, node: int, x: Array) -> int:
    """The leaf below a node that a row falls into."""
    while trees.feature[node] >= 0:
        value = x[trees.feature[node]]
        left = trees.missing[node] == 1 if np.isnan(value) else value <= trees.threshold[node]
        node += 1 if left else trees.right[node]
    return node


@compiled
def log_scores(p: Array) -> None:
    """Probabilities become scores, whose mean is zero."""
    total = 0.0
    for k in range(len(p)):
        p[k] = np.log(max(p[k], FLOOR)) / PART
        total += p[k]
    for k in range(len(p)):
        p[k] -= total / len(p)


@compiled
def boosted_row(trees: Trees, x: Array, columns: Array, raw: Array) -> None:
    """Of one row the columns, and the sums of each boosted head and class (heads x K0): baseline and trees' leaves."""
    heads, known = raw.shape
    _columns(trees, x, columns)
    for h in range(heads):
        for k in range(known):
            raw[h, k] = trees.baseline[h, k]
    for t in range(len(trees.head)):
        raw[trees.head[t], trees.label[t]] += trees.threshold[
            _leaf(trees, trees.starts[t], columns)
        ]


@compiled
def tree_row(trees: Trees, given: Array, F: Array, leaves: Array, work: Array) -> None:
    """Of one row: scores of the boosted heads (heads x K, classes beyond K0 at the floor) and leaves of the forest.

    Forests compare in single precision, as scikit-learn's do. `work` is room for columns + heads x K0 numbers.
    """
    heads, known = trees.baseline.shape
    boosted = len(trees.head)
    columns = len(trees.first)
    x = work[:columns]
    raw = work[columns : columns + heads * known].reshape((heads, known))
    boosted_row(trees, given, x, raw)
    for h in range(heads):
        softmax(raw[h], F[h])
        log_scores(F[h])
    for c in range(columns):
        x[c] = LARGE if x[c] > LARGE else -LARGE if x[c] < -LARGE else x[c]
        x[c] = np.float32(x[c])
    for t in range(len(leaves)):
        leaves[t] = int(trees.threshold[_leaf(trees, trees.starts[boosted + t], x)])


@compiled
def softmax(raw: Array, out: Array) -> None:
    """exp(raw) over its sum; classes that raw does not have get 0."""
    top = raw[0]
    total = 0.0
    for k in range(1, len(raw)):
        top = max(top, raw[k])
    for k in range(len(raw)):
        total += np.exp(raw[k] - top)
    for k in range(len(out)):
        out[k] = np.exp(raw[k] - top) / total if k < len(raw) else 0.0


@compiled
def level_scores(
    W: Array, centre: Array, deviation: Array, x: Array, out: Array, work: Array
) -> None:
    """Scores of a logistic regression with weights W (K0 x 1 + m) of columns in deviations from their centre.

    A gap is 0, and outliers are shortened. `work` is room for K0 numbers.
    """
    raw = work[: len(W)]
    for k in range(len(W)):
        raw[k] = W[k, 0]
    for j in range(len(x)):
        z = (x[j] - centre[j]) / deviation[j]
        z = min(max(z, -FARTHEST), FARTHEST) if z == z else 0.0
        for k in range(len(W)):
            raw[k] += z * W[k, 1 + j]
    softmax(raw, out)
    log_scores(out)


@compiled
def leaf_scores(
    sources: Array, counts: Array, rows: Array, labels: Array, weights: Array, used: int, leaves: Array, F: Array,
    work: Array,
) -> None:  # fmt: skip
    """Scores of the heads of one row's leaves: log of the mean over trees of the shares of each class in the leaf.

    A leaf has TRUST times the rows of the sources, those of the target, and one row spread over the classes of the
    sources. The target's are `counts` (leaves x K) or, where there are none, the first `used` of the kept rows (their
    leaves, labels and weights).
    The first head believes all sources alike, each other one a source and the others at OTHERS. `work` is room for
    (1 + trees) x K numbers.
    """
    heads, K = F.shape
    n = sources.shape[1]
    known = sources.shape[2]
    share = work[:K]
    own = work[K : (1 + len(leaves)) * K].reshape((len(leaves), K))
    for t in range(len(leaves)):
        for k in range(K):
            own[t, k] = counts[leaves[t], k] if len(counts) else 0.0
    for i in range(0 if len(counts) else used):
        for t in range(len(leaves)):
            if rows[i, t] == leaves[t]:
                own[t, labels[i]] += weights[i]
    for h in range(heads):
        for k in range(K):
            F[h, k] = 0.0
        for t in range(len(leaves)):
            total = 0.0
            for k in range(K):
                share[k] = own[t, k]
                if k < known:
                    believed = 0.0
                    for s in range(n):
                        believed += (1.0 if h == 0 or h == s + 1 else OTHERS) * sources[
                            leaves[t], s, k
                        ]
                    share[k] += TRUST * believed + 1.0 / known
                total += share[k]
            for k in range(K):
                F[h, k] += share[k] / total
        for k in range(K):
            F[h, k] /= len(leaves)
        log_scores(F[h])
