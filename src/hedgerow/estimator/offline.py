"""The offline stage: a model starts from labelled sources and unlabelled target rows, or cold, from a stream alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from hedgerow.core.arrays import Array, Matrix, cast, check_finite
from hedgerow.core.constants import Constants
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.files import write_whole
from hedgerow.core.frame import Frame
from hedgerow.core.labels import Codes, classes_of, is_missing, plain
from hedgerow.core.source_rows import InMemory
from hedgerow.estimator import input_rows as rows
from hedgerow.estimator import inputs as door
from hedgerow.estimator import model_file, parameters
from hedgerow.estimator import table_rows as tables
from hedgerow.estimator.input_rows import name_features
from hedgerow.estimator.known import Known
from hedgerow.methods import AlignFit, Training, build, choose, fit_aligner
from hedgerow.tables.encoder import TableEncoder


# A model as bytes, as a file, and as a copy.
def _table(data: Any, clf: Any, gaps: bool) -> TableEncoder | None:
    """The encoder of a file, if its numbers are those that the learner has."""
    encoder = None if data is None else TableEncoder.from_json(data)
    if encoder is None:
        return None
    if not gaps or encoder.feature_names != list(getattr(clf, "feature_names_in_", ())):
        raise ValueError("its table gives other numbers than the learner takes")
    return encoder


class Files(Known):
    """Saving, loading and copying, at a moment between two steps."""

    def to_bytes(self, *, constants: bool = True) -> bytes:
        """The model and its place in the stream as the content of a file (safetensors; no pickle).

        Without `constants` only what the labels changed is kept; `from_bytes(.., constants=clf.constants_)` reads it.
        """
        with self._fitted:
            names = getattr(self, "feature_names_in_", None)
            extra = {
                "params": parameters.to_json(self.get_params(deep=False)),
                "requests": parameters.requests_to_json(self),
                "sources": self.source_names_,
                "features": None if names is None else [str(name) for name in names],
                "n_features": int(self.n_features_in_),
                "table": None if self.table_ is None else self.table_.to_json(),
            }
            return model_file.to_bytes(self.learner_, self.classes_, extra, constants)

    @classmethod
    def from_bytes(cls, data: bytes, *, constants: Constants | None = None, name: str = "the model") -> Self:
        """The inverse of `to_bytes`; `name` stands for the data in errors."""
        learner, classes, header = model_file.from_bytes(data, name, constants)
        try:
            clf = cls(**parameters.from_json(header["params"]))
            parameters.set_requests(clf, header["requests"])
            clf.n_features_in_ = int(header["n_features"])
            features, sources = header["features"], header["sources"]
            if len(sources) != learner.n_sources or not all(isinstance(source, str) for source in sources):
                raise ValueError(f"{len(sources)} names for {learner.n_sources} sources")
            if features is not None:
                if len(features) != clf.n_features_in_ or not all(isinstance(feature, str) for feature in features):
                    raise ValueError(f"{len(features)} names for {clf.n_features_in_} features")
                name_features(clf, features)
            clf.table_ = _table(header["table"], clf, learner.gaps)
            clf._install(learner, Codes(classes), list(sources), [])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{name} is damaged ({error})") from error
        return clf

    def save(self, file: str | os.PathLike[str] | BinaryIO, *, constants: bool = True) -> None:
        """Write the model to a path, where it appears whole or not at all, or to a file opened for bytes."""
        data = self.to_bytes(constants=constants)
        if isinstance(file, str | os.PathLike):
            write_whole(file, data)
        else:
            file.write(data)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | BinaryIO, *, constants: Constants | None = None) -> Self:
        """Read a model; it resumes the stream exactly where it was saved (`info_` is not kept)."""
        if not isinstance(file, str | os.PathLike):
            return cls.from_bytes(file.read(), constants=constants, name=str(getattr(file, "name", "the file")))
        try:
            data = Path(file).read_bytes()
        except FileNotFoundError:
            raise InputError(f"no model file at {file}") from None
        except OSError as error:
            raise InputError(f"cannot read {file}: {error.strerror}") from error
        return cls.from_bytes(data, constants=constants, name=str(file))

    def __getstate__(self) -> Any:
        """For copies: a lock of their own, and the learner as it is between two steps."""
        with self.__dict__.get("_lock") or nullcontext():
            state = dict(super().__getstate__())
            if state.pop("_lock", None) is not None:
                state["learner_"] = self.learner_.copy()
        return state

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if "learner_" in state:
            self._lock = threading.RLock()


# The door for tables: all domains of a fit through one encoder, which is learned from them.
class TableDoor(Files):
    """Behind it a model of tables is one of numbers; see `hedgerow.estimator.table_rows` for rows that come later."""

    def _encoded(self, table: Frame, domain: Array) -> Array:
        """The rows of a table as numbers, by an encoder learned from all domains in it."""
        params = self.get_params(deep=False)
        parts = [(f"source {i}", np.flatnonzero(domain == i)) for i in np.unique(domain[domain >= 0])]
        target = np.flatnonzero(domain < 0)
        sources = [(name, table[at]) for name, at in parts]
        self.table_, numbers = tables.learned(params, sources, table[target])
        X = np.empty((len(table), self.table_.width))
        for at, part in zip([*(at for _, at in parts), target], numbers, strict=True):
            X[at] = part
        X = np.asarray(cast(X, door.given_dtype(self.dtype)))
        check_finite(X, "X", self.table_.feature_names, gaps=True)
        self._name_features(self.table_)
        return X

    def _name_features(self, encoder: TableEncoder) -> None:
        self.n_features_in_ = encoder.width
        self.feature_names_in_ = np.array(encoder.feature_names, dtype=object)
        self._names_of_domains = True

    def _encoded_domains(
        self, sources: Sequence[Domain], warmup: Domain | None, found: Sequence[Frame]
    ) -> tuple[TableEncoder, list[Domain], Domain | None]:
        """Domains of numbers, by an encoder learned from all of them."""
        given = [(d.name, table) for d, table in zip(sources, found, strict=False)]
        target = None if warmup is None else (warmup.name, found[-1])
        params = self.get_params(deep=False)
        encoder, numbers = tables.learned(params, given, *((None,) if target is None else (target[1], target[0])))
        alike = [d.of_numbers(X, encoder.feature_names) for d, X in zip(sources, numbers, strict=False)]
        return encoder, alike, None if warmup is None else warmup.of_numbers(numbers[-1], encoder.feature_names)


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
        method, options = choose(self.get_params(deep=False), self.table_)
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
        rows = [InMemory(X, self._known(codes, y, f"source {name!r}"), w) for name, X, y, _, w in sources]
        names, positions = [name for name, *_ in sources], [at for _, _, _, at, _ in sources]
        built = build(method, Training(names, rows, warmup, len(codes.classes), options, positions, align))
        self._install(built.learner, codes, names, built.infos)

    def _known(self, codes: Codes, labels: Array, where: str) -> Array:
        new = codes.unseen(labels)
        if new:
            raise InputError(
                f"{where}: label {plain(new[0])!r} is not among classes={codes.classes.tolist()}; "
                "add it there, or leave classes=None to let new classes be learned"
            )
        return codes.of(labels)

    def _cold_start(self, X: Matrix, labels: Array, classes: Any) -> None:
        method, options = choose(self.get_params(deep=False), self.table_)
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
        built = build(method, Training([], [], X[:0], len(codes.classes), options))
        self._install(built.learner, codes, [], [])
