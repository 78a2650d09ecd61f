"""Heads of a table: `level` and `boost`, frozen, and `leaves`, whose leaves count the labels of the target.

| head     | what it is                                                                  | heads                    |
|----------|-----------------------------------------------------------------------------|--------------------------|
| `level`  | a logistic regression of the sources, whose rows are not centred by domain  | all sources              |
| `boost`  | gradient boosting of the sources                                            | all sources, each source |
| `leaves` | a random forest of the sources: shares of the classes in the leaves of a row | all sources, each source |

They see the columns as they are, neither centred nor of unit length, since levels matter where source and target agree.
Trees have numbers, categories as codes by frequency, and gaps.
Every source has the same total weight. They are fitted on at most `MOST_ROWS` rows of the sources, by scikit-learn, and
kept as plain arrays (`kernels.trees.Trees`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from hedgerow.core.arrays import LARGEST, Array, Matrix, dense
from hedgerow.core.constants import MOST, SHORT, SINGLE, TYPES, WHOLE, Spec
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import RunningStats, profiles, target_only_width
from hedgerow.core.source_rows import InMemory, Part, SourceRows
from hedgerow.kernels import FARTHEST

if TYPE_CHECKING:
    from hedgerow.kernels.trees import Trees
    from hedgerow.methods import Training

MOST_COLUMNS = 128  # up to, and from which on there are trees
MOST_CLASSES = 32
FEWEST_ROWS = 50
MOST_ROWS = 50_000  # of all sources together that trees are fitted on
ALL = {"max_iter": 60, "max_leaf_nodes": 15}  # the boosting of all sources
EACH = {"max_iter": 40, "max_leaf_nodes": 8}  # and of each
FOREST = {"n_estimators": 50, "min_samples_leaf": 3, "max_leaf_nodes": 128}
NEVER = -1e4  # the baseline of a class that a source does not have
LEVEL = "level"
KINDS = (LEVEL, "boost", "leaves")  # of heads
NODES = {"feature": np.int16, "threshold": np.float64, "right": np.int16, "missing": np.int16}
Spans = Sequence[tuple[int, int]]  # first number and width of each column


def wants_trees(trees: bool | None, sources: Sequence[SourceRows], spans: Spans, K: int) -> bool:
    """Whether there are trees: as the user says; else where columns and classes are few, and columns differ in kind."""
    if not sources or K < 2 or trees is False:
        return False
    _check_width(trees, sources[0].width)
    return trees or is_table(sources, spans, K)


def grows_trees(trees: bool | None, pool: Matrix, spans: Spans, K: int) -> bool:
    """The same without sources, where little is known: unlabelled rows, if any, and perhaps no class."""
    _check_width(trees, pool.shape[1])
    if trees is not None:
        return trees
    few = len(spans) <= MOST_COLUMNS and K <= MOST_CLASSES
    return few and not (len(spans) == pool.shape[1] and profiles([InMemory(pool)]))


def _check_width(trees: bool | None, width: int) -> None:
    most = np.iinfo(np.int16).max
    if trees and width > most:
        raise InputError(
            f"trees=True: {width} numbers a row, and trees take at most {most}; leave trees out, or give fewer "
            "columns"
        )


def is_table(sources: Sequence[SourceRows], spans: Spans, K: int) -> bool:
    """Whether columns and classes are few, rows are not, and columns differ in kind."""
    if not sources or K < 2:
        return False
    few = (
        len(spans) <= MOST_COLUMNS
        and K <= MOST_CLASSES
        and sum(source.count for source in sources) >= FEWEST_ROWS
    )
    plain = len(spans) == sources[0].width
    return few and bool(spans) and not (plain and profiles(sources))


def spans_of(training: Training) -> Spans:
    """The columns of the sources' rows; without a table each number is one."""
    width = training.warmup.shape[1] - target_only_width(training.options.reading.preprocess)
    return [(i, 1) for i in range(width)] if training.spans is None else training.spans


def sampled(source: SourceRows, most: int, rng: np.random.Generator) -> Part:
    """At most so many labelled rows of a source; those that stay count for those that do not."""
    part = source.candidates(most, rng)
    count = part.X.shape[0]
    if count <= most:
        return part
    kept = np.sort(rng.choice(count, most, replace=False))
    weight = np.ones(count) if part.weight is None else part.weight
    return Part(
        part.X[kept],
        np.asarray(part.codes)[kept],
        weight[kept] * (weight.sum() / weight[kept].sum()),
    )


def most_rows(sources: Sequence[SourceRows]) -> int:
    """Of each source that trees are fitted on."""
    return MOST_ROWS // len(sources)


def fit_trees(sources: Sequence[SourceRows], K: int, spans: Spans, seed: int) -> dict[str, Array]:
    """The arrays of `Trees`, from labelled rows of each source.

    One thread: on rows that are few, threads mostly wait for each other.
    """
    rng = np.random.default_rng(seed)
    parts = [sampled(source, most_rows(sources), rng) for source in sources]
    with threadpool_limits(1, "openmp"):
        return _fit(parts, K, spans, seed)


def _fit(parts: Sequence[Part], K: int, spans: Spans, seed: int) -> dict[str, Array]:
    arrays = tree_columns([dense(part.X) for part in parts], spans)
    weights = [_even(part) for part in parts]
    X = [columns_of(arrays, dense(part.X)) for part in parts]
    y = [np.asarray(part.codes) for part in parts]
    order = _by_labels(y)
    groups = [(ALL, order), *([(EACH, [i]) for i in range(len(parts))] if len(parts) > 1 else [])]
    heads = []
    for size, of in groups:
        rows, codes, weight = (np.concatenate([each[i] for i in of]) for each in (X, y, weights))
        heads.append(boosted(rows, codes, weight, K, seed, size))
    rows_of, codes_of, weights_of = ([each[i] for i in order] for each in (X, y, weights))
    trees, counts = _forest(
        rows_of, codes_of, weights_of, [parts[i].weight for i in order], K, seed
    )
    levels = _levels(
        [dense(part.X) for part in parts], y, weights, K, sum(width for _, width in spans)
    )
    return arrays | levels | tree_arrays(heads, trees) | {"counts": counts[:, np.argsort(order)]}


def _by_labels(y: Sequence[Array]) -> list[int]:
    """The sources in an order that neither their numbers nor the names of classes change: a forest draws rows by it."""

    def pattern(codes: Array) -> list[int]:
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return list(np.argsort(np.argsort(first))[inverse].tolist())

    return sorted(range(len(y)), key=lambda i: pattern(y[i]))


def _even(part: Part) -> Array:
    """Weights of a source's rows, which sum to one."""
    weight = np.ones(part.X.shape[0]) if part.weight is None else part.weight
    return np.asarray(weight / weight.sum())


# -- levels -------------------------------------------------------------------------------------------------------


def _levels(
    X: Sequence[Array], y: Sequence[Array], weight: Sequence[Array], K: int, width: int
) -> dict[str, Array]:
    """A logistic regression on all sources: scale and centre of each number, and weights of the classes.

    Target-only columns, those from `width` on, have no weight.
    """
    from sklearn.linear_model import LogisticRegression

    rows, codes, weights = (np.concatenate(each) for each in (X, y, weight))
    stats = RunningStats.of(rows, gaps=True)
    sd = np.sqrt(np.maximum(stats.variance, 0))
    sd = np.where(sd > 1e-9 * np.maximum(np.abs(stats.mean), 1e-100), sd, 1.0)
    classes = np.unique(codes)
    W = np.zeros((K, rows.shape[1] + 1))
    W[:, 0] = NEVER
    if len(classes) > 1:
        model = LogisticRegression(max_iter=200, tol=1e-3).fit(
            scaled(rows, stats.mean, sd, FARTHEST)[:, :width],
            codes,
            sample_weight=weights / weights.mean(),
        )
        W[classes[-len(model.intercept_) :], 0] = model.intercept_
        W[classes[-len(model.intercept_) :], 1 : 1 + width] = model.coef_
        W[classes[: -len(model.intercept_)], 0] = 0.0  # of two classes the first has no weights
    else:
        W[classes, 0] = 0.0
    return {"level.centre": stats.mean, "level.sd": sd, "level.W": W}


def scaled(X: Array, mean: Array, sd: Array, limit: float) -> Array:
    """Columns less their mean over their deviation; a gap is 0, and outliers are shortened."""
    Z = (X - mean) / sd
    return np.clip(np.where(np.isnan(Z), 0.0, Z), -limit, limit)


# -- columns ------------------------------------------------------------------------------------------------------


def tree_columns(X: Sequence[Array], spans: Spans) -> dict[str, Array]:
    """How columns are made of numbers; the codes of a category are ordered by how frequent it is in all sources."""
    places = []
    codes = [np.empty(0)]
    for first, width in spans:
        places.append(sum(map(len, codes)))
        if width > 1:
            rows = [block[:, first : first + width] for block in X]
            signs = [sum((sign * block > 0).sum(axis=0) for block in rows) for sign in (1, -1)]
            frequency = np.append(
                np.stack(signs, axis=1).ravel(), -1
            )  # an unknown value comes last
            rank = np.empty(len(frequency))
            rank[np.argsort(-frequency, kind="stable")] = np.arange(len(frequency))
            codes.append(np.minimum(rank, (frequency > 0).sum()))
    return {
        "first": np.array([first for first, _ in spans], np.int64),
        "width": np.array([width for _, width in spans], np.int64),
        "place": np.array(places, np.int64),
        "codes": np.concatenate(codes),
    }


def columns_of(arrays: Mapping[str, Array], X: Array) -> Array:
    """The columns of rows."""
    out = X[:, arrays["first"]].astype(np.float64)
    for c in np.flatnonzero(arrays["width"] > 1):
        first, width, place = (int(arrays[name][c]) for name in ("first", "width", "place"))
        block = X[:, first : first + width]
        at = np.abs(block).argmax(axis=1)
        value = block[np.arange(len(block)), at]
        code = np.where(value == 0, 2 * width, 2 * at + (value < 0))
        out[:, c] = np.where(np.isnan(block[:, 0]), np.nan, arrays["codes"][place + code])
    return out


# -- from scikit-learn's trees to arrays --------------------------------------------------------------------------


Tree = dict[str, Array]
Boosted = tuple[
    Array, list[tuple[int, Tree]]
]  # where the sums of each class start, and trees with their class


def tree_arrays(boosted: Sequence[Boosted], forest: Sequence[Tree] = ()) -> dict[str, Array]:
    """Boosted heads and then a forest: their nodes one after the other, and what each boosted tree belongs to."""
    pairs = [(h, k, tree) for h, (_, trees) in enumerate(boosted) for k, tree in trees]
    nodes = [*(tree for _, _, tree in pairs), *forest]
    return {
        name: np.concatenate([np.empty(0, kind), *(tree[name] for tree in nodes)])
        for name, kind in NODES.items()
    } | {
        "starts": np.cumsum([0, *(len(tree["feature"]) for tree in nodes)])[: len(nodes)].astype(
            np.int64
        ),
        "head": np.array([h for h, _, _ in pairs], np.int64),
        "label": np.array([k for _, k, _ in pairs], np.int64),
        "baseline": np.array([start for start, _ in boosted]),
    }


def boosted_model(kind: str, X: Array, y: Array, weight: Array, seed: int, **options: Any) -> Any:
    """scikit-learn's histogram boosting of this kind, fitted."""
    from sklearn import ensemble

    model: Any = quick_bins(getattr(ensemble, f"HistGradientBoosting{kind}"))(
        learning_rate=0.1, l2_regularization=1.0, early_stopping=False, random_state=seed, **options
    )
    X = np.where(
        np.isnan(X).all(axis=0), 0.0, X
    )  # a column without numbers, which its bins cannot have
    return model.fit(X, y, sample_weight=weight)


def boosted(
    X: Array, y: Array, weight: Array, K: int, seed: int, size: Mapping[str, int]
) -> Boosted:
    """Boosting of rows with these codes: where its sums start, and its trees; a class that they lack gets nothing."""
    baseline = np.full(K, NEVER)
    classes = np.unique(y)
    if len(classes) == 1:
        baseline[classes] = 0.0
        return baseline, []
    model = boosted_model("Classifier", X, y, weight / weight.mean(), seed, **size)
    start = model._baseline_prediction.ravel()
    baseline[classes] = start if len(classes) > 2 else [0.0, start[0]]
    trees = [
        (int(classes[k if len(classes) > 2 else 1]), boosted_tree(tree.nodes))
        for each in model._predictors
        for k, tree in enumerate(each)
    ]
    return baseline, trees


def quick_bins(boosting: type[Any]) -> type[Any]:
    """A class of scikit-learn's histogram boosting whose bins do not look at the weights of rows.

    By weight every edge of a bin is a weighted percentile, which took most of a fit.
    """

    class QuickBins(boosting):  # type: ignore[misc]
        def _bin_data(self, X: Array, *weight: Any, **rest: Any) -> Any:
            return super()._bin_data(X, *(None for _ in weight), **rest)

    return QuickBins


def boosted_tree(nodes: Array) -> dict[str, Array]:
    """The arrays of one tree of scikit-learn's histogram boosting."""
    leaf = nodes["is_leaf"].astype(bool)
    return _preorder(
        np.where(leaf, -1, nodes["feature_idx"]),
        np.where(leaf, nodes["value"], nodes["num_threshold"]),
        nodes["left"],
        nodes["right"],
        nodes["missing_go_to_left"],
    )


def _forest(
    X: Sequence[Array],
    y: Sequence[Array],
    weight: Sequence[Array],
    given: Sequence[Array | None],
    K: int,
    seed: int,
) -> tuple[list[dict[str, Array]], Array]:
    """The trees, and what each leaf has of each source and class."""
    from sklearn.ensemble import RandomForestClassifier

    from hedgerow.kernels.trees import LARGE

    options: Any = FOREST
    together = np.concatenate(weight)
    model: Any = RandomForestClassifier(**options, random_state=seed)
    X = [np.clip(rows, -LARGE, LARGE) for rows in X]
    model.fit(np.concatenate(X), np.concatenate(y), sample_weight=together / together.mean())
    trees = []
    first = 0
    numbers = []  # of the leaves, among those of all trees, by scikit-learn's number of the node
    for each in model.estimators_:
        tree = each.tree_
        leaf = tree.children_left < 0
        number = first + np.cumsum(leaf) - 1
        first = int(number[-1]) + 1
        numbers.append(number)
        trees.append(
            _preorder(
                np.where(leaf, -1, tree.feature),
                np.where(leaf, number, tree.threshold),
                tree.children_left,
                tree.children_right,
                tree.missing_go_to_left,
            )
        )
    counts = np.zeros((first, len(X), K), np.float32)
    for i, (rows, codes) in enumerate(zip(X, y, strict=True)):
        own = given[i]
        for number, at in zip(numbers, model.apply(rows).T, strict=True):
            np.add.at(counts[:, i], (number[at], codes), 1.0 if own is None else own)
    return trees, counts


def _preorder(
    feature: Array, threshold: Array, left: Array, right: Array, missing: Array
) -> dict[str, Array]:
    """A tree with every left child right after its node."""

    def walk() -> Iterator[int]:
        waiting = [0]
        while waiting:
            node = waiting.pop()
            yield node
            if feature[node] >= 0:
                waiting += [int(right[node]), int(left[node])]

    order = np.fromiter(walk(), np.int64)
    place = np.empty(len(feature), np.int64)
    place[order] = np.arange(len(order))
    inner = feature[order] >= 0
    distance = np.zeros(len(order), np.int64)
    distance[inner] = place[right[order[inner]].astype(np.int64)] - np.flatnonzero(inner)
    return {
        "feature": feature[order].astype(np.int16),
        "threshold": np.minimum(
            threshold[order], LARGEST[np.dtype(np.float64)]
        ),  # infinity: all that is no gap
        "right": distance.astype(np.int16),
        "missing": np.where(inner, missing[order], 0).astype(np.int16),
    }


def trees_of(arrays: Mapping[str, Array]) -> Trees:
    """The arrays as compiled loops take them."""
    from hedgerow.kernels.trees import Trees

    return Trees(*(arrays[name] for name in Trees._fields))


# -- of a model ---------------------------------------------------------------------------------------------------


class TreeHeads:
    """The trees of a model, and how often the target's labels fell into each leaf of the forest (leaves x K)."""

    def __init__(self, arrays: Mapping[str, Array], state: Mapping[str, Array], K: int) -> None:
        self.trees = trees_of(arrays)
        self.level = tuple(arrays[f"level.{name}"] for name in ("W", "centre", "sd"))
        self.size = len(self.trees.starts) - len(self.trees.head)  # trees of the forest
        self.counts = np.zeros((len(self.trees.counts), K))
        self.counts.flat[state["at"]] = state["n"]

    @classmethod
    def none(cls) -> TreeHeads:
        """Those of a model without trees."""
        arrays = {
            name: np.zeros([0] * len(spec.shape), TYPES[spec.kind][0])
            for name, spec in specs(0, 0, forest=True)[0].items()
        }
        return cls(arrays | {"counts": np.zeros((0, 0, 0), np.float32)}, empty(), 0)

    def arrays(self) -> dict[str, Array]:
        """The state: where a leaf and class has labels, and how many."""
        at = np.flatnonzero(self.counts)
        return {"at": at, "n": self.counts.ravel()[at]}

    def grow(self, extra: int) -> None:
        """Room for new classes."""
        self.counts = np.pad(self.counts, [(0, 0), (0, extra)])


def empty() -> dict[str, Array]:
    """The state before any label."""
    return {"at": np.empty(0, np.int64), "n": np.empty(0)}


def specs(heads: int, K: int | str, *, forest: bool) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """Shape, type and range of constants and state, for K classes (1: numbers), with a forest or without."""
    column = ("tree columns",)
    node = ("tree nodes",)
    constants = {
        "first": Spec(column, WHOLE, 0, "m"),
        "width": Spec(column, WHOLE, 1, MOST),
        "place": Spec(column, WHOLE, 0, MOST),
        "codes": Spec(("tree codes",), low=0),
        "feature": Spec(node, SHORT, -1, "tree columns"),
        "starts": Spec(("trees",), WHOLE, 0, "tree nodes"),
        "threshold": Spec(node),
        "right": Spec(node, SHORT, 0),
        "missing": Spec(node, SHORT, 0, 1),
        "head": Spec(("boosted trees",), WHOLE, 0, heads - 1),
        "label": Spec(("boosted trees",), WHOLE, 0, K if isinstance(K, str) else K - 1),
        "baseline": Spec((heads, K)),
        "counts": Spec(("leaves", "n", K) if forest else (0, 0, 0), SINGLE, 0),
    }
    if forest:  # and levels
        constants |= {
            "level.centre": Spec(("m",)),
            "level.sd": Spec(("m",), low=1e-300),
            "level.W": Spec((K, "1+m")),
        }
    return constants, {"at": Spec(("counted",), WHOLE, 0, MOST), "n": Spec(("counted",), low=0)}


def problems(own: Mapping[str, Array], sizes: Mapping[str, int], *, forest: bool) -> Iterator[str]:
    """What shapes and ranges alone do not say of trees; compiled loops rely on all of it."""
    first = own["first"]
    width = own["width"]
    place = own["place"]
    categories = width > 1
    if (first + width > sizes["m"]).any() or (place + 2 * width >= len(own["codes"]))[
        categories
    ].any():
        yield "trees: a column beyond the numbers of a row, or a category without codes"
    starts = own["starts"]
    boosted = len(own["head"])
    nodes = len(own["feature"])
    wrong = len(starts) <= boosted if forest else len(starts) != boosted or (nodes and not boosted)
    if wrong or starts[:1].any() or (np.diff(starts) < 1).any():
        yield "trees: no forest, or trees that do not follow each other"
        return
    ends = np.repeat(np.append(starts, nodes)[1:], np.diff(np.append(starts, nodes)))
    inner = np.flatnonzero(own["feature"] >= 0)
    if (own["right"][inner] < 2).any() or (inner + own["right"][inner] >= ends[inner]).any():
        yield "trees: a node whose children are not behind it in its tree"
    if not forest:
        return
    leaves = own["threshold"][starts[boosted] :][own["feature"][starts[boosted] :] < 0]
    if (leaves != np.floor(leaves)).any() or leaves.min() < 0 or leaves.max() >= sizes["leaves"]:
        yield "trees: a leaf of the forest without a number"
    if sizes["leaves"] > np.iinfo(np.int16).max:
        yield f"trees: {sizes['leaves']} leaves"
    at = own["at"]
    if (np.diff(at) < 1).any() or at.max(initial=0) >= sizes["leaves"] * sizes["K"]:
        yield "trees: labels in leaves that there are not"
