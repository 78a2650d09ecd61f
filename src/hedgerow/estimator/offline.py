"""The offline stage: a model starts from labelled sources and unlabelled target rows, or cold, from a stream alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import numpy as np

from hedgerow.core.arrays import Array, Matrix, cast, check_finite
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.labels import Codes, classes_of, is_missing, plain
from hedgerow.estimator import input_rows as rows
from hedgerow.estimator import inputs as door
from hedgerow.estimator import table_rows as tables
from hedgerow.estimator.composition import composition
from hedgerow.estimator.table_door import TableDoor
from hedgerow.learners.method import Source
from hedgerow.methods.build import build, fit_aligner

AlignFit = Any  # (aligner, source, codes, warmup) -> Alignment


class Offline(TableDoor):
    """`fit` in its forms: either the whole model is there afterwards, or nothing has changed."""

    def fit(self, X: Matrix, y: Any, sample_domain: Any = None, sample_weight: Any = None) -> Self:
        """Start from labelled sources (sample_domain >= 0: the source's number) and unlabelled target rows (< 0).

        Without `sample_domain` all rows are one source. The labels of target rows are never looked at. Rows of a source
        are presented to its classifier in the order given, and so are those of all sources to a pooled one.
        `sample_weight` says how much each source row counts for the classifiers and the means of its source (not for
        the scaling and the alignment, which have no labels); a row of weight 0 is left out. See `partial_fit`.
        """
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; "
                "give a label for every source row"
            )
        with self._restored_on_error():
            self.__dict__.pop("_names_of_domains", None)
            self.table_ = None
            table = tables.table_of(self.get_params(deep=False), X, "X")
            X = self._matrix(X, reset=True) if table is None else table
            labels = door.labels(y, X.shape[0])
            domain = door.sample_domains(sample_domain, X.shape[0])
            if table is not None:
                X = self._encoded(table, domain)
            weight = door.weights(sample_weight, X.shape[0], domain >= 0)
            sources = [
                (name, X[at], labels[at], at, None if weight is None else weight[at])
                for name, at in door.source_rows(domain, weight)
            ]
            self._start(sources, X[domain < 0])
        return self

    def fit_domains(
        self,
        sources: Sequence[Domain],
        warmup: Domain | None = None,
        *,
        together: Array | None = None,
        align: AlignFit = fit_aligner,
    ) -> Self:
        """As `fit`, from named domains.

        `together` is the order in which a pooled classifier sees the rows of all sources (a permutation of them; None:
        source after source). `align(aligner, source, codes, warmup)` may return a remembered alignment.
        """
        encoder = None
        found = tables.tables_of(self.get_params(deep=False), [*sources, *([warmup] if warmup is not None else [])])
        if found is not None:
            encoder, sources, warmup = self._encoded_domains(sources, warmup, found)
        sources, warmup, names = rows.domains_alike(sources, warmup)
        domains = [*sources, *([warmup] if warmup is not None else [])]
        dtype = door.given_dtype(self.dtype) or np.result_type(*(d.X.dtype for d in domains))
        matrices = [cast(d.X, dtype) for d in domains]
        for d, X in zip(domains, matrices, strict=True):
            check_finite(X, f"domain {d.name!r}", d.feature_names, gaps=encoder is not None)
        ends = np.cumsum([len(d) for d in sources])
        rank = np.arange(sum(map(len, sources))) if together is None else np.argsort(np.asarray(together, dtype=int))
        places = np.split(rank, ends[:-1])
        parts = [
            (d.name, X, d.y, at, None) for d, X, at in zip(sources, matrices, places, strict=False) if d.y is not None
        ]
        with self._restored_on_error():
            self.table_ = encoder
            self.n_features_in_ = domains[0].X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = names
                self._names_of_domains = True
            self._start(parts, matrices[0][:0] if warmup is None else matrices[-1], align)
        return self

    @contextmanager
    def _restored_on_error(self) -> Iterator[None]:
        """If anything inside fails, every attribute is again what it was."""
        with self.__dict__.get("_lock") or nullcontext():
            before = dict(vars(self))
            try:
                yield
            except BaseException:
                self.__dict__.clear()
                self.__dict__.update(before)
                raise

    def _start(
        self,
        sources: Sequence[tuple[str, Matrix, Array, Array, Array | None]],
        warmup: Matrix,
        align: AlignFit = fit_aligner,
    ) -> None:
        method, options = composition(self.get_params(deep=False), self.table_)
        labels = [y for _, _, y, _, _ in sources]
        for name, _, y, _, _ in sources:
            if is_missing(y).any():
                row = int(np.flatnonzero(is_missing(y))[0])
                raise InputError(
                    f"source {name!r}: Input y contains NaN or None at row {row}; a source row needs a label"
                )
            door.check_targets(y)
        codes = Codes(door.all_classes(labels) if self.classes is None else door.given_classes(self.classes))
        door.check_classes(self.max_classes, codes.classes, self.classes is not None)
        parts = [Source(name, X, self._known(codes, y, f"source {name!r}"), at, w) for name, X, y, at, w in sources]
        built = build(method, options, parts, warmup, len(codes.classes), align)
        self._install(built.learner, codes, [part.name for part in parts], built.infos)

    def _known(self, codes: Codes, labels: Array, where: str) -> Array:
        new = codes.unseen(labels)
        if new:
            raise InputError(
                f"{where}: label {plain(new[0])!r} is not among classes={codes.classes.tolist()}; "
                "add it there, or leave classes=None to let new classes be learned"
            )
        return codes.of(labels)

    def _cold_start(self, X: Matrix, labels: Array, classes: Any) -> None:
        method, options = composition(self.get_params(deep=False), self.table_)
        given = self.classes if self.classes is not None else classes
        known = labels[~is_missing(labels)]
        if given is None:
            door.check_targets(known)
        found = classes_of(known, "y") if given is None else door.given_classes(given)
        if given is None:
            door.check_new_classes(self.max_classes, 0, 0, found)
        else:
            door.check_classes(self.max_classes, found, True)
        codes = Codes(found)
        built = build(method, options, [], X[:0], len(codes.classes))
        self._install(built.learner, codes, [], [])
