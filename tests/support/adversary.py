"""Streams that are chosen against a mixer, for the laws about guarantees."""

from __future__ import annotations

import numpy as np


def one_hot(predictions, K):
    return np.eye(K)[predictions][None]


def guesses(rng, n, K):
    """Experts that answer at random."""
    return one_hot(rng.integers(0, K, size=n), K)


def scores(rng, n, K):
    """Scores at random, at times loud ones."""
    return rng.normal(scale=rng.choice([0.3, 1.0, 5.0]), size=(1, n, K))


def adversary(mixer, seed, n, K, rounds, F_of):
    """At each round the label that the mixer believes in least, or a favourite's own answer, or one that nobody knows.

    The favourite changes at times. After each round: labels so far, state, weighted loss, mistakes.
    """
    rng = np.random.default_rng(seed)
    state = mixer.start(n)
    mixture = 0.0
    mistakes = 0
    favourite = 0
    for t in range(rounds):
        F = F_of(rng, n, K)
        kind = rng.random()
        favourite = int(rng.integers(n)) if rng.random() < 0.03 else favourite
        hurtful = int(mixer.combine(state, t, F)[0].argmin())
        label = np.array(
            [hurtful if kind < 0.5 else int(F[0, favourite].argmax()) if kind < 0.9 else K]
        )
        out = mixer.run(state, t, F, label)
        mixture += float(out.weights[0] @ out.losses[0])
        mistakes += int(out.scores[0].argmax() != label[0])
        yield t + 1, state, mixture, mistakes
