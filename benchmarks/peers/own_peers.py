"""Our learner by its public interface, live: predict_proba_one, then learn_one."""

from __future__ import annotations

import numpy as np

from hedgerow import Domain, OnlineTransferClassifier
from peers.peer import DEFAULT, Entry, Peer
from peers.streams import Stream


class Own(Peer):
    def __init__(self, method: str, K: int) -> None:
        self.method, self.K = method, K
        rng = np.random.default_rng(0)  # the compiled parts are loaded before the clock runs
        X, y = rng.normal(size=(40, 6)), np.arange(40) % 3
        tiny = OnlineTransferClassifier(method).fit_domains([Domain("a", X, y), Domain("b", X + 1, y)], Domain("t", X))
        for x, label in zip(X, y, strict=True):
            tiny.predict_proba_one(x)
            tiny.learn_one(x, label)

    def fit(self, stream: Stream) -> None:
        pairs = zip(stream.sources, stream.source_codes, strict=True)
        sources = [Domain(f"source {i}", X, y) for i, (X, y) in enumerate(pairs)]
        self.clf = OnlineTransferClassifier(self.method)
        self.clf.fit_domains(sources, Domain("target", stream.warmup), together=stream.together)

    def predict(self, row: np.ndarray) -> np.ndarray:
        shares = self.clf.predict_proba_one(row)
        return np.array([shares[code] for code in range(self.K)])

    def learn(self, row: np.ndarray, code: int) -> None:
        self.clf.learn_one(row, code)


def entry(method: str) -> Entry:
    return Entry("hedgerow", lambda setting, K, m: Own(method, K), settings=(DEFAULT,), own_map=True)


PEERS = {name: entry(name) for name in ("hedgerow", "hedgerow-linear")}
