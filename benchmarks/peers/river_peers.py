"""river: trees and forests for streams, softmax regression, leveraging bagging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hedgerow.comparison.peers as comparison
from peers.peer import REASONABLE, SOURCES, TARGET, Entry, Peer

SEED = 1


class River(comparison.River, Peer):
    row_by_row = True


def forest(setting: str) -> Any:
    """Reasonable: a tree may split after 25 rows, because a stream has some hundred."""
    from river.forest import ARFClassifier

    return ARFClassifier(n_models=25, grace_period=25, seed=SEED) if setting == REASONABLE else ARFClassifier(seed=SEED)


def patches(setting: str) -> Any:
    """Reasonable: smaller subspaces, trees that may split earlier."""
    from river.ensemble import SRPClassifier
    from river.tree import HoeffdingTreeClassifier

    if setting == REASONABLE:
        return SRPClassifier(HoeffdingTreeClassifier(grace_period=25, delta=0.01), subspace_size=0.2, seed=SEED)
    return SRPClassifier(seed=SEED)


def adaptive_tree(setting: str) -> Any:
    """Reasonable: the tree may split after 50 rows."""
    from river.tree import HoeffdingAdaptiveTreeClassifier

    options = {"grace_period": 50, "delta": 0.01} if setting == REASONABLE else {}
    return HoeffdingAdaptiveTreeClassifier(**options, seed=SEED)


def softmax(setting: str) -> Any:
    """Reasonable: a step that suits rows of unit length."""
    from river import linear_model, optim

    return linear_model.SoftmaxRegression(optim.SGD(1.0)) if setting == REASONABLE else linear_model.SoftmaxRegression()


def bagging(setting: str) -> Any:
    """Default: over Hoeffding trees, as in river's documentation. Reasonable: over the softmax regression above."""
    from river.ensemble import LeveragingBaggingClassifier
    from river.tree import HoeffdingTreeClassifier

    base = softmax(setting) if setting == REASONABLE else HoeffdingTreeClassifier()
    return LeveragingBaggingClassifier(base, seed=SEED)


def entry(make: Callable[[str], Any], slow: bool) -> Entry:
    return Entry("river", lambda setting, K, m: River(make(setting), K), (SOURCES, TARGET), slow=slow)


PEERS = {
    "river softmax": entry(softmax, slow=False),
    "river ARF": entry(forest, slow=True),
    "river HAT": entry(adaptive_tree, slow=True),
    "river SRP": entry(patches, slow=True),
    "river LevBag": entry(bagging, slow=True),
}
