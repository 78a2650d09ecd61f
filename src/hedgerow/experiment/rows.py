"""The row of a finished run: what every experiment writes down about it, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.evaluate.folds import Row
from hedgerow.experiment.environment import versions
from hedgerow.experiment.results import KEY
from hedgerow.methods import METHODS
from hedgerow.mix import Hedge

NO_EXPERTS: Row = {
    "expert_mistakes": [], "expert_loss": [], "hedge_loss": 0.0, "beta": None, "bound": None, "guarantee": "none"
}  # fmt: skip


def finished_row(key: tuple[object, ...], clf: OnlineTransferClassifier | None, **facts: Any) -> Row:
    """A row under its key: the method's title, the losses of the experts, `facts`, and the versions used.

    A model of another package (None) has no experts, and its title stands among the facts.
    """
    named = dict(zip(KEY, key, strict=True))
    own = NO_EXPERTS if clf is None else {"title": METHODS[str(named["method"])].title, **expert_losses(clf)}
    return {**named, **own, **facts, "versions": versions()}


def expert_losses(clf: OnlineTransferClassifier) -> Row:
    """What the theory needs of a finished run: losses of the experts and of the mixture, and the bound."""
    learner = clf.learner_
    mixer = getattr(learner.plan, "mixer", None)  # our own learner mixes in another way, and has no beta
    return {
        "expert_mistakes": learner.state["expert_mistakes"],
        "expert_loss": learner.state.get("expert_loss", np.empty(0)),
        "hedge_loss": clf.hedge_loss_,
        "beta": mixer.beta if isinstance(mixer, Hedge) else None,
        "bound": clf.bound_ if np.isfinite(clf.bound_) else None,
        "guarantee": clf.guarantee_,
    }
