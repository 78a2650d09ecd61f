"""What a finished run's row says about its experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.mix import Hedge


def account(clf: OnlineTransferClassifier) -> dict[str, Any]:
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
