"""The one place where experiments make a classifier from a method, a reading of the paper and options.

An experiment's options are names and plain values, so that a row of results can hold them: those of the classifier,
the answers of a reading, `rounds` of JDA, and `loss` and `eta` of HomOTL-I's mixer. They are set for all methods of an
experiment; each method gets those that it reads.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hedgerow.align import JDA
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.learners.method import CHOICES, Options
from hedgerow.learners.readings import Reading, reading_of
from hedgerow.methods import METHODS
from hedgerow.mix import LossBased

READING_OPTIONS = frozenset(field.name for field in fields(Reading)) - {"preset"}
LOSS_BASED = ("loss", "eta")


def classifier(method: str, reading: str, **options: Any) -> OnlineTransferClassifier:
    """An unfitted classifier.

    >>> classifier("oddm", "authors", dim=10, lam=0.5).reading.lam, classifier("pa", "authors", lam=0.5).reading
    (0.5, 'authors')
    """
    given = {name: value for name, value in options.items() if name not in LOSS_BASED}
    mixer = {name: options[name] for name in LOSS_BASED if name in options}
    if mixer:
        given["mixer"] = LossBased(**mixer, combination=given.pop("combine", None) or "simplex")
    if "rounds" in given:
        given["aligner"] = _jda(method, reading, given)
    read = options_read(method, given)
    answers = {name: given.pop(name) for name in READING_OPTIONS & given.keys() - {"preprocess"}}
    answers = {name: value for name, value in answers.items() if name in read}
    given = {name: value for name, value in given.items() if name not in CHOICES or name in read}
    chosen = reading_of(reading, method, **answers)
    return OnlineTransferClassifier(method, reading=chosen if chosen.changes() else reading, **given)


def _jda(method: str, reading: str, given: dict[str, Any]) -> JDA:
    """JDA with so many rounds; dim, lam and eigenvectors, which it would get by name, go with it."""
    answers = reading_answers(method, reading, given)
    for name in ("lam", "eigenvectors"):
        given.pop(name, None)
    options = {name: given.pop(name) for name in ("dim", "rounds") if name in given}
    return JDA(**options, lam=answers["lam"], eigenvectors=answers["eigenvectors"])


def options_read(method: str, options: dict[str, Any]) -> frozenset[str]:
    """The names of options that a method reads beside these.

    >>> "lam" in options_read("oddm", {}), "lam" in options_read("hedgerow", {})
    (True, False)
    """
    return METHODS[method].options(Options(**{name: options[name] for name in CHOICES if name in options}))


def reading_answers(method: str, reading: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a reading says on every question it answers, with what the options say otherwise.

    >>> reading_answers("oddm", "table", {"lam": 0.5, "dim": 10})["lam"]
    0.5
    """
    given = {name: value for name, value in options.items() if name in READING_OPTIONS}
    found = vars(reading_of(reading, method, **given))
    return {name: value for name, value in found.items() if name in READING_OPTIONS}


def every_option(method: str, reading: str, options: dict[str, Any]) -> dict[str, Any]:
    """The reading's answers that the method reads, then the classifier's remaining parameters that have a value.

    Of a method that is not registered here (a plugin's, in a folder of results) nothing is left out.
    """
    read = options_read(method, options) if method in METHODS else READING_OPTIONS
    answers = reading_answers(method, reading, options)
    rest = {name: value for name, value in options.items() if name not in READING_OPTIONS and value is not None}
    return {name: value for name, value in answers.items() if name in read} | rest
