"""The one place where experiments make a classifier from a method, a reading of the paper and options."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.learners.readings import Reading, resolve

READING_OPTIONS = frozenset(field.name for field in fields(Reading))


def classifier(method: str, reading: str, **options: Any) -> OnlineTransferClassifier:
    """An unfitted classifier.

    >>> classifier("oddm", "authors", dim=10).get_params()["dim"]
    10
    """
    return OnlineTransferClassifier(method, reading=reading, **options)


def reading_answers(method: str, reading: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a reading says on every question it answers, with what the options say otherwise.

    >>> reading_answers("oddm", "table", {"lam": 0.5, "dim": 10})["lam"]
    0.5
    """
    given = {name: value for name, value in options.items() if name in READING_OPTIONS}
    return dict(vars(resolve(reading, method, **given)))


def every_option(method: str, reading: str, options: dict[str, Any]) -> dict[str, Any]:
    """The reading's answers, then the classifier's remaining parameters where they have a value."""
    parameters = OnlineTransferClassifier().get_params() | options
    rest = {name: value for name, value in parameters.items() if name not in READING_OPTIONS and value is not None}
    return reading_answers(method, reading, options) | {
        name: value for name, value in rest.items() if name not in ("method", "reading")
    }
