"""The offline stage: from a method, its options, labelled sources and unlabelled target rows to a learner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import Preprocess
from hedgerow.core.source_rows import SourceRows
from hedgerow.learners.method import Built, Ingredients, Method, Offline, Options, Source
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


def build_from_rows(
    method: Method, options: Options, names: Sequence[str], rows: Sequence[SourceRows], warmup: Matrix, K: int
) -> Built:
    """The same for sources wherever their rows are, by a method that asks them for statistics only."""
    pre = Preprocess(options.reading.preprocess)
    scaled, U = pre.start_rows(rows, warmup)
    built = method.build_from_statistics(Ingredients(names, scaled, U, K, pre, options))
    assert built is not None, "check_merges comes first"
    return built


def check_merges(name: str) -> None:
    """Refuse a method that needs the rows of its sources one after the other; name those that do not."""
    if not merges(METHODS[name]):
        able = ", ".join(other for other in METHODS if merges(METHODS[other]))
        raise InputError(
            f"method={name!r} learns its sources row by row, so they have to be in memory; "
            f"methods that need statistics of the sources only: {able}"
        )


def merges(method: Method) -> bool:
    """Whether a method can be built from statistics alone."""
    return type(method).build_from_statistics is not Method.build_from_statistics


def check_options(name: str, method: Method, options: Options) -> None:
    """Refuse an option that was set and that the method does not read; name the methods that do."""
    read = method.options(options)
    for option, value in options.given().items():
        if option in read:
            continue
        others = [other for other in METHODS if option in METHODS[other].options(options)]
        where = f"methods that do: {', '.join(others)}" if others else "no method does beside the other options given"
        raise InputError(f"{option}={value!r}: method {name!r} does not read it here ({where}); leave it out")
