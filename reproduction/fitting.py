"""What is fitted for a unit of the experiments, with alignments that are solved once a process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np

from hedgerow.align import ALIGNERS, Aligner, Alignment
from hedgerow.comparison.results import Row
from hedgerow.comparison.runner import Unit
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.methods import METHODS
from hedgerow.mix import Hedge
from reproduction.tasks import Task, fit, reading_answers

DIM = 100  # of an aligned space, at most


@dataclass(frozen=True)
class Remembered:
    """An aligner that solves each alignment once a process: the costly part of the offline stage."""

    aligner: Aligner

    def fit(self, source: Matrix, codes: Array, target: Matrix) -> Alignment:
        """The alignment, known or solved now."""
        key = joblib.hash((repr(self.aligner), dense(source), codes, dense(target)))
        if key in KNOWN:
            alignment, seconds = KNOWN[key]
            SAVED.append(seconds)
            return alignment
        began = time.perf_counter()
        alignment = self.aligner.fit(source, codes, target)
        KNOWN[key] = alignment, time.perf_counter() - began
        return alignment


KNOWN: dict[str, tuple[Alignment, float]] = {}  # with the seconds that it took
SAVED: list[float] = []  # seconds of alignments that were known already


def clock() -> float:
    """Seconds, as if every alignment had been solved again."""
    return time.perf_counter() + sum(SAVED)


def fit_unit(unit: Unit, task: Task, **more: Any) -> OnlineTransferClassifier:
    """The classifier of a unit, whose reading stands in every row of it."""
    reading = unit.also["reading"]
    options = {**more, **unit.options}
    if aligner := remembered(unit.method, reading, options):
        options["aligner"] = aligner
    return fit(task, unit.method, reading, **options)


def fit_with_horizon(unit: Unit, task: Task) -> OnlineTransferClassifier:
    """The same, told how long the stream is."""
    return fit_unit(unit, task, horizon=len(task.stream))


def remembered(method: str, reading: str, options: Mapping[str, Any]) -> Remembered | None:
    """The aligner of a method with its options; None if it has none."""
    name = options.get("aligner", getattr(METHODS[method], "aligner", "identity"))
    if name == "identity" or "rounds" in options:
        return None
    answers = reading_answers(method, reading, dict(options))
    return Remembered(
        ALIGNERS.make(
            name,
            dim=options.get("dim", DIM),
            lam=answers["lam"],
            eigenvectors=answers["eigenvectors"],
            seed=options.get("random_state", 0),
        )
    )


def expert_losses(clf: OnlineTransferClassifier) -> Row:
    """What the theory needs of a finished run: losses of the experts and of the mixture, and the bound."""
    learner = clf.learner_
    mixer = getattr(
        learner.plan, "mixer", None
    )  # our own learner mixes in another way, and has no beta
    return {
        "experts": clf.expert_names_,
        "expert_mistakes": learner.state["expert_mistakes"],
        "expert_loss": learner.state.get("expert_loss", np.empty(0)),
        "hedge_loss": clf.hedge_loss_,
        "beta": mixer.beta if isinstance(mixer, Hedge) else None,
        "bound": clf.bound_ if np.isfinite(clf.bound_) else None,
        "guarantee": clf.guarantee_,
    }
