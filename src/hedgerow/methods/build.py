"""The offline stage: from a method, its options, labelled sources and unlabelled target rows to a learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import Preprocess
from hedgerow.learners.method import Built, Method, Offline, Options, Source
from hedgerow.methods.recipes import METHODS

if TYPE_CHECKING:
    from hedgerow.align import Aligner, Alignment
    from hedgerow.learners.method import AlignFit


def fit_aligner(aligner: Aligner, X: Matrix, codes: Array, warmup: Matrix) -> Alignment:
    """The plain way; the paper's experiments pass one that remembers."""
    return aligner.fit(X, codes, warmup)


def build(
    method: Method,
    options: Options,
    sources: Sequence[Source],
    warmup: Matrix,
    K: int,
    align: AlignFit = fit_aligner,
) -> Built:
    """The whole offline stage. `warmup` may have no rows, and `sources` may be empty: then only the target learns."""
    pre = Preprocess(options.reading.preprocess)
    rows, U = pre.start([source.X for source in sources], warmup)
    scaled = [replace(source, X=X) for source, X in zip(sources, rows, strict=True)]
    return method.build(Offline(scaled, U, K, pre, options, align))


def check_options(name: str, method: Method, options: Options) -> None:
    """Refuse an option that was set and that the method does not read; name the methods that do."""
    read = method.options(options)
    for option, value in options.given().items():
        if option in read:
            continue
        others = [other for other in METHODS if option in METHODS[other].options(options)]
        where = f"methods that do: {', '.join(others)}" if others else "no method does beside the other options given"
        raise InputError(f"{option}={value!r}: method {name!r} does not read it here ({where}); leave it out")
