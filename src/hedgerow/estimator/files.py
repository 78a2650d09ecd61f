"""A model as bytes, as a file, and as a copy."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Self

from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError
from hedgerow.core.files import write_whole
from hedgerow.core.labels import Codes
from hedgerow.estimator import model_file, parameters
from hedgerow.estimator.input_rows import name_features
from hedgerow.estimator.known import Known
from hedgerow.tables.encoder import TableEncoder


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
            parameters.set_requests(clf, header.get("requests"))
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
