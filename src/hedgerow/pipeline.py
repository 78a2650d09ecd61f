"""A scikit-learn pipeline that learns online: transformers that were fitted once, then a model that goes on."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _is_fitted, _num_samples

from hedgerow.core.arrays import Array, is_sparse
from hedgerow.core.domains import names_of_row
from hedgerow.core.errors import InputError, require
from hedgerow.estimator import Explanation, OnlineTransferClassifier
from hedgerow.files import write_whole
from hedgerow.inputs import sample_domains
from hedgerow.regressor import NumberExplanation, OnlineTransferRegressor, load_model

FORMAT = "hedgerow pipeline 1"
MANIFEST = "manifest.json"
TRANSFORMERS = "transformers.skops"
CLASSIFIER = "classifier.safetensors"
HARMLESS = ("numpy.dtype",)  # read as that of an empty array; skops asks about it all the same


class OnlinePipeline(Pipeline):  # type: ignore[misc]
    """A `sklearn.pipeline.Pipeline` whose last step is an `OnlineTransferClassifier`, with its verbs for streams; or an
    `OnlineTransferRegressor`.

    `fit` fits the transformers with the rows of sources and target alike; one that cannot be fitted without labels
    sees those of the sources alone. From then on they stay as they are, so that a feature means the same throughout
    the stream: what should follow the target is the classifier's own `preprocess`. A transformer that was fitted
    elsewhere goes in as `sklearn.frozen.FrozenEstimator(transformer)`.

    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2)); y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = make_online_pipeline(PolynomialFeatures(), OnlineTransferClassifier()).fit(X[:40], y[:40])
    >>> model.learn_one(X[40], y[40]).predict_one(X[41]) in ("same", "different")
    True
    >>> model.partial_fit(X[42:], y[42:])[-1].seen_
    39
    """

    def fit(self, X: Any, y: Any, sample_domain: Any = None, sample_weight: Any = None) -> Self:
        """As `OnlineTransferClassifier.fit`, through the transformers."""
        self._check()
        if y is None:
            raise InputError("y is None; give a label for every source row")
        domain, _ = sample_domains(sample_domain, _num_samples(X))
        X, fitted = self._fit_transformers(X, y, np.flatnonzero(domain >= 0))
        self[-1].fit(X, y, sample_domain, sample_weight)
        self.set_params(**fitted)  # not before nothing can fail
        return self

    def _fit_transformers(
        self, X: Any, y: Any, known: Array, again: bool = True
    ) -> tuple[Any, dict[str, Any]]:
        """X behind the transformers, and these: clones fitted with all rows, or if they need labels the known ones.

        Not `again`: one that is fitted stays as it is.
        """
        fitted = {}
        for name, step in self._transformers():
            if again or not _is_fitted(step):
                try:
                    fitted[name] = clone(step).fit(X)
                except (
                    TypeError,
                    ValueError,
                ):  # it needs labels; if that is not why, it fails again
                    rows = X.tocsr() if is_sparse(X) else X
                    fitted[name] = clone(step).fit(
                        _safe_indexing(rows, known), _safe_indexing(y, known)
                    )
            X = fitted.get(name, step).transform(X)
        return X, fitted

    def _transformers(self) -> list[tuple[str, Any]]:
        return [(name, step) for name, step in self.steps[:-1] if step not in (None, "passthrough")]

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Self:
        """Learn labelled rows of the target in order. The transformers stay as they are.

        Before any `fit`, transformers that were not fitted either are fitted with these rows.
        """
        fitted: dict[str, Any] = {}
        if hasattr(self._check()[-1], "learner_"):
            X = self.transformed(X)
        else:
            X, fitted = self._fit_transformers(X, y, np.arange(_num_samples(X)), again=False)
        self[-1].partial_fit(X, y, sample_weight=sample_weight, **options)
        self.set_params(**fitted)
        return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Self:
        """Learn one row of the target."""
        self._check()[-1].learn_one(self._row(x), y, weight)
        return self

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """The prediction made for each row before its label was learned."""
        return np.asarray(
            self._check()[-1].predict_then_learn(self.transformed(X), y, sample_weight)
        )

    def predict_one(self, x: Any) -> Any:
        """The prediction for one row: a 1-d array, a Series, or a mapping from the names of columns to values."""
        return self._check()[-1].predict_one(self._row(x))

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Class -> probability of one row."""
        return dict(self._check()[-1].predict_proba_one(self._row(x)))

    def explain_one(
        self, x: Any, *, by_column: bool = False, reference: Any = None
    ) -> Explanation | NumberExplanation:
        """One prediction with its reasons.

        `by_column` adds what each column did, as the last step reads columns: behind the transformers, by the names
        that these give. `reference` is a row to compare with, given as x is; None: the mean row of the sources.
        """
        usual = None if reference is None else self._row(reference)
        why = self._check()[-1].explain_one(self._row(x), by_column=by_column, reference=usual)
        parts = why.contributions
        front = self._transformers()
        if parts is None or not front:
            return why  # type: ignore[no-any-return]
        with suppress(AttributeError, ValueError):  # a transformer that does not name what it makes
            names = {
                f"x{j}": name for j, name in enumerate(Pipeline(front).get_feature_names_out())
            }
            columns = {names.get(name, name): amount for name, amount in parts.columns.items()}
            cells = {names.get(name, name): cell for name, cell in parts.cells.items()}
            why = why._replace(contributions=parts._replace(columns=columns, cells=cells))
        return why  # type: ignore[no-any-return]

    def predict_interval(self, X: Any, coverage: float | None = None) -> Array:
        """An interval a row, of a regressor."""
        return np.asarray(self._check()[-1].predict_interval(self.transformed(X), coverage))

    def transformed(self, X: Any) -> Any:
        """Rows as the classifier reads them."""
        for _, step in self._transformers():
            X = step.transform(X)
        return X

    def _row(self, x: Any) -> Any:
        """One row as the classifier reads it."""
        if isinstance(x, Mapping) or names_of_row(x) is not None:  # a Series or a table of one row
            rows = (
                x
                if len(getattr(x, "shape", ())) == 2
                else require("pandas", extra="pipeline").DataFrame([dict(x)])
            )
            names = getattr(self, "feature_names_in_", None)
            x = (
                rows.reindex(columns=list(names))
                if isinstance(x, Mapping) and names is not None
                else rows
            )
        elif not is_sparse(x):
            x = np.atleast_2d(x)
        row = self.transformed(x)
        return row if is_sparse(row) else np.asarray(row)[0]

    def _check(self) -> Self:
        if not isinstance(self.steps[-1][1], OnlineTransferClassifier | OnlineTransferRegressor):
            raise InputError(
                f"the last step is {self.steps[-1][1]!r}; it has to be an OnlineTransferClassifier or "
                "OnlineTransferRegressor"
            )
        if self.memory is not None:
            raise InputError(
                f"memory={self.memory!r}: an online pipeline keeps no cache; leave memory out"
            )
        return self

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write one file: the transformers as skops keeps them, the classifier as our own file; no pickle in either."""
        skops = require("skops.io", extra="pipeline")
        manifest = {"format": FORMAT, "steps": [name for name, _ in self._check().steps]}
        parts = {
            MANIFEST: json.dumps(manifest).encode(),
            TRANSFORMERS: skops.dumps([step for _, step in self.steps[:-1]]),
            CLASSIFIER: self[-1].to_bytes(),
        }
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for name, data in parts.items():
                archive.writestr(
                    zipfile.ZipInfo(name), data
                )  # without a time: the same content is the same bytes
        write_whole(file, content.getvalue())

    @classmethod
    def load(cls, file: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Self:
        """Read what `save` wrote.

        Parameters
        ----------
        file
            Its path.
        trusted
            Types that skops does not know and that you trust: the code of their classes runs when they are read.

        Raises
        ------
        InputError
            If the file is damaged or no pipeline, or has a type that is not trusted, which the error names.
        """
        skops = require("skops.io", extra="pipeline")
        untrusted = require("skops.io.exceptions", extra="pipeline").UntrustedTypesFoundException
        try:
            with zipfile.ZipFile(file) as archive:  # which checks a sum of each part
                manifest = json.loads(archive.read(MANIFEST))
                if manifest["format"] != FORMAT:
                    raise ValueError(
                        f"its format is {manifest['format']!r}, this hedgerow reads {FORMAT!r}"
                    )
                steps = skops.loads(archive.read(TRANSFORMERS), trusted=[*HARMLESS, *trusted])
                steps.append(load_model(io.BytesIO(archive.read(CLASSIFIER))))
            return cls(list(zip(manifest["steps"], steps, strict=True)))
        except FileNotFoundError:
            raise InputError(f"no file at {file}") from None
        except untrusted as error:
            raise InputError(
                f"{file}: {error} If you trust them all: load(.., trusted=[...])"
            ) from error
        except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{file} is not a pipeline of hedgerow, or is damaged ({error})"
            ) from error


def make_online_pipeline(*steps: Any) -> OnlinePipeline:
    """As scikit-learn's `make_pipeline`; the last step is one of our estimators."""
    return OnlinePipeline(make_pipeline(*steps).steps)._check()
