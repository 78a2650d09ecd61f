"""A classifier from sources whose rows are not in memory: they are asked for statistics, in several passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hedgerow.core.arrays import DENSE_LIMIT, canonical, cast, check_finite, is_sparse
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.feature_names import order_by_name
from hedgerow.core.frame import Frame
from hedgerow.core.labels import Codes, plain
from hedgerow.core.source_rows import LabelledSource
from hedgerow.estimator import inputs as door
from hedgerow.estimator.classifier import OnlineTransferClassifier
from hedgerow.estimator.input_rows import name_features
from hedgerow.methods import Training, build, check_merges, choose


def check_affordable(clf: OnlineTransferClassifier, width: int) -> None:
    """Before anything is read: the options can be used, the method needs no rows, and a Gram matrix has room."""
    choose(clf.get_params(deep=False))
    check_merges(clf.method)
    if 8 * width * width > DENSE_LIMIT:
        raise InputError(
            f"{width} features: a Gram matrix of them takes {8 * width * width / 2**30:.1f} GiB; choose features, or "
            "bring them to fewer with hedgerow.dask.align and WhitenedPCA(sketch=...)"
        )


def fit_partitions(
    clf: OnlineTransferClassifier, sources: Sequence[LabelledSource], warmup: Domain | None
) -> OnlineTransferClassifier:
    """As `clf.fit_domains`, with the same model as the result, up to rounding. Nothing changes if it fails."""
    if warmup is not None and isinstance(warmup.X, Frame):
        raise InputError(
            f"domain {warmup.name!r} has columns that are no numbers, or gaps; sources that are not in memory are "
            "numbers, so encode all of them first, or use --engine local"
        )
    names = list(sources[0].feature_names)
    check_affordable(clf, len(names))
    target = None if warmup is None else _alike(warmup, names, sources[0].name)
    dtype = np.result_type(*(source.dtype for source in sources), *([] if target is None else [target.X.dtype]))
    U = np.empty((0, len(names)), dtype) if target is None else cast(target.X, dtype)
    if target is not None:
        check_finite(U, f"domain {target.name!r}", names)
    with clf._restored_on_error():
        method, options = choose(clf.get_params(deep=False))
        for source in sources:
            door.check_targets(source.labels)
        labels = [source.labels for source in sources]
        codes = Codes(door.all_classes(labels) if clf.classes is None else door.given_classes(clf.classes))
        door.check_classes(clf.max_classes, codes.classes, clf.classes is not None)
        for source in sources:
            _check_known(codes, source)
        clf.n_features_in_ = len(names)
        name_features(clf, names)
        clf.table_ = None
        rows = [source.rows(codes.classes, dtype) for source in sources]
        called = [source.name for source in sources]
        built = build(method, Training(called, rows, U, len(codes.classes), options))
        clf._install(built.learner, codes, called, built.infos)
    return clf


def _check_known(codes: Codes, source: LabelledSource) -> None:
    new = codes.unseen(source.labels)
    if new:
        raise InputError(
            f"source {source.name!r}: label {plain(new[0])!r} is not among classes={codes.classes.tolist()}; "
            "add it there, or leave classes=None to let new classes be learned"
        )


def _alike(domain: Domain, names: Sequence[str], first: str) -> Domain:
    """The warm-up rows with the columns of the sources, in their order."""
    if domain.X.shape[1] != len(names):
        raise InputError(
            f"domain {domain.name!r}: {domain.X.shape[1]} features, but source {first!r} has {len(names)}; "
            "homogeneous transfer needs the same features"
        )
    if domain.feature_names is None:
        return domain
    order = order_by_name(domain.feature_names, names, f"domain {domain.name!r}", f"those of source {first!r}")
    if order is None:
        return domain
    X = domain.X[:, order]
    return replace(domain, X=canonical(X) if is_sparse(X) else np.ascontiguousarray(X), feature_names=tuple(names))
