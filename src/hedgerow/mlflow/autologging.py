"""Parameters and prequential curves, logged to MLflow by themselves."""

from __future__ import annotations

import itertools
import time
import weakref
from typing import Any

import numpy as np
from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient
from mlflow.tracking.fluent import active_run
from mlflow.utils.autologging_utils import autologging_integration
from mlflow.utils.autologging_utils.safety import safe_patch

from hedgerow import __version__
from hedgerow.core.arrays import Array
from hedgerow.core.labels import as_labels, is_missing
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.mlflow.flavour import FLAVOUR, log_model

POINTS = 100  # of a curve, at most, for one call
EVERY = 100  # labels from one point to the next where rows are learned one at a time
_RUNS: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # the run in which a model was fitted


@autologging_integration(FLAVOUR)  # type: ignore[untyped-decorator]
def autolog(log_models: bool = False, disable: bool = False, silent: bool = False, exclusive: bool = False) -> None:
    """From now on log each `fit` (parameters), and each `predict_then_learn`, `partial_fit`, `learn_one` (curves).

    A fit outside of a run makes a run of its own. The stream is logged to the run of the fit, a step a label:
    `mistakes`, the share so far, `mistakes_lately`, since the point before, and `bound`. `log_models` keeps the model
    as it was fitted. Rows that are learned one at a time are logged every 100 labels, and by `log_progress`.
    """

    def fit(original: Any, self: OnlineTransferClassifier, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        run = active_run()
        if run is not None:
            _RUNS[self] = run.info.run_id
            _log_parameters(self, run.info.run_id)
            if log_models:
                log_model(self)
        return found

    def learn_block(original: Any, self: OnlineTransferClassifier, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        seen, mistakes = self.seen_, self.mistakes_
        found = original(self, X, y, *args, **kwargs)
        labels = as_labels(y, "y")
        wrong = (found.labels != labels)[~is_missing(labels)]
        _log_curve(self, wrong, seen, mistakes)
        return found

    def learn(original: Any, self: OnlineTransferClassifier, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        log_progress(self)
        return found

    def learn_row(original: Any, self: OnlineTransferClassifier, *args: Any, **kwargs: Any) -> Any:
        seen = self.seen_
        found = original(self, *args, **kwargs)
        if self.seen_ // EVERY > seen // EVERY:
            log_progress(self)
        return found

    for name in ("fit", "fit_domains"):
        safe_patch(FLAVOUR, OnlineTransferClassifier, name, fit, manage_run=True)
    safe_patch(FLAVOUR, OnlineTransferClassifier, "explain_then_learn", learn_block)
    safe_patch(FLAVOUR, OnlineTransferClassifier, "partial_fit", learn)
    safe_patch(FLAVOUR, OnlineTransferClassifier, "learn_one", learn_row)


def log_progress(clf: OnlineTransferClassifier) -> None:
    """Log mistakes and bound as they are now, to the run in which the model was fitted, or else the active one."""
    if clf.seen_:
        _log_curve(clf, np.zeros(0, dtype=bool), clf.seen_, clf.mistakes_)


def _run_of(clf: OnlineTransferClassifier) -> str | None:
    run = active_run()
    return _RUNS.get(clf) or (None if run is None else run.info.run_id)


def _log_parameters(clf: OnlineTransferClassifier, run: str) -> None:
    given = {name: value for name, value in clf.get_params(deep=False).items() if value is not None}
    given |= {"sources": ", ".join(clf.source_names_), "features": clf.n_features_in_, "classes": len(clf.classes_)}
    params = [Param(name, str(value)[:6000]) for name, value in given.items()]
    MlflowClient().log_batch(run, params=params, tags=[RunTag("hedgerow", __version__)])


def _log_curve(clf: OnlineTransferClassifier, wrong: Array, seen: int, mistakes: int) -> None:
    run, now = _run_of(clf), int(1000 * time.time())
    if run is None:
        return
    points = np.unique(np.linspace(0, len(wrong), POINTS + 1).astype(int))
    so_far = np.r_[0, np.cumsum(wrong)]
    found = []
    for before, at in itertools.pairwise(points):
        step = seen + int(at)
        found.append(Metric("mistakes", (mistakes + int(so_far[at])) / step, now, step))
        found.append(Metric("mistakes_lately", int(so_far[at] - so_far[before]) / int(at - before), now, step))
    if not len(wrong):
        found.append(Metric("mistakes", mistakes / seen, now, seen))
    found.append(Metric("bound", float(clf.bound_), now, clf.seen_))
    MlflowClient().log_batch(run, metrics=found)
