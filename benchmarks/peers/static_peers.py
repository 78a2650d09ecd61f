"""skada and ADAPT: adapted once on the sources and the unlabelled rows, then a logistic regression that stays.

Which of a package's methods is best on average is picked by the table, in hindsight and so in their favour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from peers.peer import REASONABLE, Entry, Peer
from peers.sklearn_peers import pooled
from peers.streams import Stream

DIM = 100  # directions of a subspace, at most
UNLABELLED = -1  # how skada writes a label that is not there


class Static(Peer):
    """Does not learn from the stream."""

    def __init__(self, K: int) -> None:
        self.K = K

    def learn(self, row: np.ndarray, code: int) -> None:
        pass


class Skada(Static):
    def __init__(self, make: Callable[..., Any], setting: str, K: int) -> None:
        super().__init__(K)
        self.make, self.setting = make, setting

    def fit(self, stream: Stream) -> None:
        X, y = pooled(stream)
        owner = np.repeat(np.arange(len(stream.sources)), [len(part) for part in stream.sources])[stream.together]
        self.domain = -(len(stream.sources) + 1)
        rows = np.vstack([X, stream.warmup])
        labels = np.concatenate([y, np.full(len(stream.warmup), UNLABELLED)])
        domains = np.concatenate([owner + 1, np.full(len(stream.warmup), self.domain)])
        self.model = self.make(regression(self.setting), smaller(stream) if self.setting == REASONABLE else None)
        self.model.fit(rows, labels, sample_domain=domains)

    def predict(self, row: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_proba(row[None], sample_domain=np.array([self.domain]))[0])


class Adapt(Static):
    def __init__(self, make: Callable[..., Any], setting: str, K: int) -> None:
        super().__init__(K)
        self.make, self.setting = make, setting

    def fit(self, stream: Stream) -> None:
        X, y = pooled(stream)
        dim = smaller(stream) if self.setting == REASONABLE else None
        self.model = self.make(regression(self.setting), stream.warmup, dim)
        self.model.fit(X, y)

    def predict(self, row: np.ndarray) -> np.ndarray:
        X = row[None]  # ADAPT has `predict` only; this is what it does, with probabilities
        if hasattr(self.model, "transform"):
            X = self.model.transform(X, domain="tgt")
        return np.asarray(self.model.estimator_.predict_proba(X)[0])


def regression(setting: str) -> LogisticRegression:
    """The classifier on top: as in sklearn_peers."""
    return LogisticRegression(C=10.0, max_iter=300) if setting == REASONABLE else LogisticRegression()


def smaller(stream: Stream) -> int:
    """Directions that features and unlabelled rows allow."""
    return min(DIM, stream.warmup.shape[1], len(stream.warmup) - 1)


def skada_coral(base: Any, dim: int | None) -> Any:
    """Reasonable: a covariance shrunk by a tenth, which rows of a few hundred need."""
    from skada import CORAL

    return CORAL(base, reg=0.1) if dim else CORAL(base)


def skada_subspace(base: Any, dim: int | None) -> Any:
    from skada import SubspaceAlignment

    return SubspaceAlignment(base, n_components=dim)


def skada_transport(base: Any, dim: int | None) -> Any:
    """Default: optimal transport; reasonable: the one that keeps classes together."""
    from skada import ClassRegularizerOTMapping, OTMapping

    return ClassRegularizerOTMapping(base) if dim else OTMapping(base)


def adapt_coral(base: Any, Xt: np.ndarray, dim: int | None) -> Any:
    from adapt.feature_based import CORAL

    return CORAL(base, Xt=Xt, verbose=0, random_state=0, **({"lambda_": 1.0} if dim else {}))


def adapt_subspace(base: Any, Xt: np.ndarray, dim: int | None) -> Any:
    from adapt.feature_based import SA

    return SA(base, Xt=Xt, verbose=0, random_state=0, n_components=dim)


def adapt_weights(base: Any, Xt: np.ndarray, dim: int | None) -> Any:
    """Default: kernel mean matching with a linear kernel; reasonable: with a Gaussian one."""
    from adapt.instance_based import KMM

    options = {"kernel": "rbf", "gamma": 1.0} if dim else {}
    return KMM(base, Xt=Xt, verbose=0, random_state=0, **options)


SKADA = {"CORAL": skada_coral, "subspace": skada_subspace, "transport": skada_transport}
ADAPT = {"CORAL": adapt_coral, "subspace": adapt_subspace, "weights": adapt_weights}


def _skada(make: Callable[..., Any]) -> Entry:
    return Entry("skada", lambda setting, K, m: Skada(make, setting, K))


def _adapt(make: Callable[..., Any]) -> Entry:
    return Entry("adapt", lambda setting, K, m: Adapt(make, setting, K), needs="adapt.feature_based")


PEERS = {f"skada {name}": _skada(make) for name, make in SKADA.items()}
PEERS |= {f"ADAPT {name}": _adapt(make) for name, make in ADAPT.items()}
