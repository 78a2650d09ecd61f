"""A model among CapyMOA's: `TransferClassifier` is a `capymoa.base.ClassifierSSL` over a fitted classifier.

Needs `pip install 'hedgerow[capymoa]'` and Java 17.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import listed
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import plain
from hedgerow.estimator import OnlineTransferClassifier

require("capymoa", extra="capymoa")
from capymoa.base import ClassifierSSL  # noqa: E402


class TransferClassifier(ClassifierSSL):  # type: ignore[misc]
    """A fitted `OnlineTransferClassifier` for CapyMOA's evaluations, of labelled and of half-labelled streams.

    Columns are read by name where the schema has the model's names, by position otherwise.

    Parameters
    ----------
    schema
        Of the stream, as CapyMOA has it.
    classifier
        A fitted model, which is copied; without one the stream is learned alone.
    labels
        The classifier's labels for the schema's classes, one each, in the schema's order; None matches them by their
        text.
    random_seed
        As CapyMOA passes it; nothing here is random.

    Attributes
    ----------
    classifier
        The copy, which learns.

    Raises
    ------
    InputError
        If the schema has not the model's classes, or not as many attributes.

    Examples
    --------
    ::

        model = TransferClassifier(stream.get_schema(), OnlineTransferClassifier().fit_domains(sources))
        prequential_evaluation(stream, model)
    """

    def __init__(
        self,
        schema: Any,
        classifier: OnlineTransferClassifier | None = None,
        labels: Sequence[Any] | None = None,
        random_seed: int = 1,
    ) -> None:
        super().__init__(schema=schema, random_seed=random_seed)
        self.classifier = OnlineTransferClassifier() if classifier is None else copy.copy(classifier)
        known = [plain(label) for label in getattr(self.classifier, "classes_", ())]
        self._labels = _labels(known, [str(value) for value in schema.get_label_values()], labels)
        self._index = {label: i for i, label in enumerate(self._labels)}
        strange = [label for label in known if label not in self._index]
        if strange:
            raise InputError(
                f"schema: the model knows the classes {listed(strange)}, the schema's are {listed(self._labels)}; give "
                "labels=[...], or a schema that has them all"
            )
        self._order = _order(schema, self.classifier)

    def __str__(self) -> str:
        return f"hedgerow ({self.classifier.method})"

    def train(self, instance: Any) -> None:
        """Learn an instance; one whose label is missing as one without a label."""
        index = instance.y_index
        self.classifier.learn_one(self._row(instance), self._labels[index] if index >= 0 else None)

    def train_on_unlabeled(self, instance: Any) -> None:
        """Learn an instance without its label: our own learner uses the row, the paper's nothing."""
        self.classifier.learn_one(self._row(instance), None)

    def predict(self, instance: Any) -> int | None:
        """The place of the most likely class in the schema; None before any class is known."""
        return self._index[self.classifier.predict_one(self._row(instance))] if self._knows_a_class else None

    def predict_proba(self, instance: Any) -> Array | None:
        """A probability for each of the schema's classes; None before any class is known."""
        if not self._knows_a_class:
            return None
        shares = self.classifier.predict_proba_one(self._row(instance))
        return np.array([shares.get(label, 0.0) for label in self._labels])

    @property
    def _knows_a_class(self) -> bool:
        return len(getattr(self.classifier, "classes_", ())) > 0

    def _row(self, instance: Any) -> Array:
        x = np.asarray(instance.x, dtype=np.float64)
        return x if self._order is None else x[self._order]


def _labels(known: list[Any], values: list[str], labels: Sequence[Any] | None) -> list[Any]:
    """The model's label for each class of the schema."""
    if labels is not None:
        if len(labels) != len(values) or len(set(labels)) != len(values):
            raise InputError(f"labels={list(labels)}: give one label for each of the schema's classes {listed(values)}")
        return [plain(label) for label in labels]
    by_text = {str(label): label for label in known}
    kind: Any = type(known[0]) if known else str
    made = kind if kind in (str, int) else by_text.__getitem__  # of other kinds none can be made of its text
    try:
        return [by_text[value] if value in by_text else made(value) for value in values]
    except (KeyError, ValueError) as error:
        own = f"its classes {listed(values)} are not the model's {listed(known)}"
        raise InputError(f"schema: {own}; give labels=[...]") from error


def _order(schema: Any, clf: OnlineTransferClassifier) -> Array | None:
    """Where the model's columns are in an instance; None: where they stand."""
    width = getattr(clf, "n_features_in_", schema.get_num_attributes())
    if width != schema.get_num_attributes():
        raise InputError(f"schema: {schema.get_num_attributes()} attributes, the model has {width} features")
    header = schema.get_moa_header()
    names = [str(header.attribute(i).name()) for i in range(header.numAttributes()) if i != header.classIndex()]
    wanted = [str(name) for name in getattr(clf, "feature_names_in_", names)]
    if wanted == names or set(wanted) != set(names):
        return None
    return np.array([names.index(name) for name in wanted])
