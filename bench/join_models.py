"""Starts without sources, and models of one's own in the place of sources' rows or beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd

from bench.record import Row
from bench.tables import HGB, task_of
from bench.tables import TASKS as TABLES
from bench.tasks import prepare
from hedgerow import Domain, OnlineTransferClassifier

OFFICE = ("amazon", "caltech", "dslr", "webcam")
NOTHING, MODELS, ROWS, BOTH = (
    "nothing",
    "a model a source",
    "the sources' rows",
    "rows and models",
)
GOALS = {  # of the means of some tasks, and of one: what is in the place of nothing
    ("tables", NOTHING): {"mistakes %": "<= 29"},
    ("bikeshare", NOTHING): {"mistakes %": "<= 22"},
    ("tables", MODELS): {"above rows": "<= 0.7"},
    ("Office", MODELS): {"above rows": "<= 4.3"},
    ("tables", BOTH): {"above rows": "<= 0.3"},
    ("Office", BOTH): {"above rows": "<= 0.3"},
}


class Boosting:
    """What somebody has who fitted boosting to a table: text as codes by their order, from frames to probabilities."""

    def __init__(self, X: pd.DataFrame, y: np.ndarray) -> None:
        self._words = {
            name: {word: i for i, word in enumerate(sorted(set(X[name].dropna().astype(str))))}
            for name in X
            if not pd.api.types.is_numeric_dtype(X[name])
        }
        self._names = list(X)
        self._model = HGB().fit(self._numbers(X), y)
        self.classes_ = self._model.classes_

    def _numbers(self, X: pd.DataFrame) -> np.ndarray:
        columns = [
            X[name].astype(str).map(self._words[name]) if name in self._words else X[name]
            for name in self._names
        ]
        return np.stack([column.to_numpy(float, na_value=np.nan) for column in columns], axis=1)

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Probabilities of rows."""
        return np.asarray(self._model.predict_proba(self._numbers(X)))


def logistic(X: np.ndarray, y: np.ndarray) -> Any:
    """A logistic regression of square roots at unit length."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer

    return make_pipeline(
        FunctionTransformer(_roots), Normalizer(), LogisticRegression(C=10.0, max_iter=200)
    ).fit(X, y)


def _roots(X: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(X, 0))


def models(quick: bool, tasks: str = "tables,Office", seeds: int = 1) -> Iterator[Row]:
    """What the default makes of a stream if it starts with nothing but unlabelled rows and the classes, with one model
    a source (boosting of a table, logistic regression of Office+Caltech) and no rows, with the sources' rows, or with
    both. `above rows`: points above the sources' rows alone. The constants of trees of own rows were chosen on seed 0.
    """
    groups = {"tables": tuple(TABLES), "Office": OFFICE}
    for group in tasks.split(","):
        names = groups.get(group, (group,))
        figures: dict[str, list[float]] = {}
        for name in names[:1] if quick else names:
            for seed in range(seeds):
                each = measured(name, seed, (NOTHING,) if quick else (NOTHING, MODELS, ROWS, BOTH))
                for who, mistakes in each.items():
                    figures.setdefault(who, []).append(mistakes)
                    yield row(name, seed, who, mistakes, each.get(ROWS))
        if len(names) > 1 and not quick:
            rows = mean(figures[ROWS])
            for who, mistakes in figures.items():
                yield row(group, "all", who, mean(mistakes), rows)


def row(name: str, seed: int | str, who: str, mistakes: float, rows: float | None) -> Row:
    """A row of the page."""
    above = {} if rows is None else {"above rows": mistakes - rows}
    return Row(
        {"task": name, "seed": seed, "starts with": who},
        {"mistakes %": mistakes, **above},
        GOALS.get((name, who), {}),
    )


def measured(name: str, seed: int, forms: tuple[str, ...]) -> Mapping[str, float]:
    """Mistakes of each form in percent."""
    if name in TABLES:
        table = task_of(name, seed)
        sources = [Domain(*source) for source in table.sources]
        fitted = {source.name: Boosting(source.X, source.y) for source in table.sources}
        warmup, X, y = Domain("target", table.warmup), table.stream, table.labels
    else:
        task = prepare(name, seed)
        sources = list(task.sources)
        fitted = {source.name: logistic(source.X, source.y) for source in sources}
        warmup, X, y = task.unlabelled, task.stream.X, task.stream.y
    classes = sorted(set(np.concatenate([np.asarray(source.y) for source in sources])))
    figures = {}
    for form in forms:
        clf = OnlineTransferClassifier(
            classes=classes, experts=fitted if form in (MODELS, BOTH) else None
        ).fit_domains(sources if form in (ROWS, BOTH) else [], warmup)
        figures[form] = 100 * float((clf.predict_then_learn(X, y) != y).mean())
    return figures
