"""scikit-learn: partial_fit, and classifiers that are fitted anew every 50 labels on everything seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import SVC

import hedgerow.comparison.peers as comparison
from peers.peer import REASONABLE, Entry, Peer, one_hot
from peers.streams import Stream

PASSES = 5


class PartialFit(comparison.PartialFit, Peer):
    """One pass over the sources (reasonable: five), then every label by partial_fit."""

    def __init__(self, model: Any, K: int, passes: int) -> None:
        super().__init__(model, K, passes)
        self.probabilistic = hasattr(model, "predict_proba")

    def fit(self, stream: Stream) -> None:
        super().fit(*pooled(stream))

    def predict(self, row: np.ndarray) -> np.ndarray:
        return super().predict(row) if self.probabilistic else one_hot(self.model.predict(row[None])[0], self.K)


class Refitted(comparison.Refitted, Peer):
    """Fitted on the sources, and anew on sources and stream after every 50 labels."""

    def __init__(self, model: Any, K: int, probabilistic: bool = True) -> None:
        super().__init__(model, K)
        self.probabilistic = probabilistic

    def fit(self, stream: Stream) -> None:
        super().fit(*pooled(stream))

    def predict(self, row: np.ndarray) -> np.ndarray:
        return super().predict(row) if self.probabilistic else one_hot(self.model.predict(row[None])[0], self.K)


def pooled(stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all sources in one order."""
    X, y = np.vstack(stream.sources), np.concatenate(stream.source_codes)
    return X[stream.together], y[stream.together]


def sgd(setting: str, K: int, m: int) -> Peer:
    """Reasonable: five passes over the sources."""
    return PartialFit(SGDClassifier(loss="log_loss", random_state=0), K, PASSES if setting == REASONABLE else 1)


def passive_aggressive(setting: str, K: int, m: int) -> Peer:
    """PassiveAggressiveClassifier as scikit-learn since 1.8 wants it written. Reasonable: five passes, C = .1."""
    better = setting == REASONABLE
    step = 0.1 if better else 1.0
    model = SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=step, random_state=0)
    model_peer = PartialFit(model, K, PASSES if better else 1)
    model_peer.probabilistic = False
    return model_peer


def logistic(setting: str, K: int, m: int) -> Peer:
    """Reasonable: C = 10, because the rows have unit length."""
    return Refitted(LogisticRegression(C=10.0, max_iter=300) if setting == REASONABLE else LogisticRegression(), K)


def support_vectors(setting: str, K: int, m: int) -> Peer:
    """Reasonable: C = 10 and a Gaussian kernel as wide as rows of unit length are apart."""
    return Refitted(SVC(C=10.0, gamma=0.5) if setting == REASONABLE else SVC(), K, probabilistic=False)


def boosting(setting: str, K: int, m: int) -> Peer:
    """Reasonable: fewer rounds with larger steps and a fifth of the features a split, so that refitting is bearable."""
    options = {"max_iter": 40, "learning_rate": 0.2, "max_features": 0.2} if setting == REASONABLE else {}
    return Refitted(HistGradientBoostingClassifier(random_state=0, **options), K)


PEERS = {
    "sklearn SGD": Entry("scikit-learn", sgd, needs="sklearn"),
    "sklearn PA": Entry("scikit-learn", passive_aggressive, needs="sklearn"),
    "sklearn logistic, refitted": Entry("scikit-learn", logistic, needs="sklearn"),
    "sklearn SVM, refitted": Entry("scikit-learn", support_vectors, needs="sklearn"),
    "sklearn boosting, refitted": Entry("scikit-learn", boosting, needs="sklearn", slow=True),
}
