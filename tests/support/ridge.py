"""Rows through the compiled loops of our own learner, without a model around them."""

from __future__ import annotations

import numpy as np

from hedgerow.kernels.ridge import LONGEST, Mixture, learn_row, mix_row, mixing_room

NEVER = np.inf  # noise of a row that is predicted and not learned


def fits(regression, Z):
    """What the heads say of rows by all that was learned."""
    return Z @ regression.M + (Z @ regression.G.T) @ regression.E


def fold(regression):
    """The rows that wait go into P and M."""
    n = len(regression.E)
    regression.fold(n)
    regression.G = regression.G[:0]
    regression.E = regression.E[:0]


def learn(regression, Z, Y, noise):
    """Rows one after the other, those with a noise as pending rows; the fits before each label."""
    said = []
    for z, y, r in zip(Z, Y, noise, strict=True):
        said.append(fits(regression, z[None])[0])
        if r == NEVER:
            continue
        n = len(regression.G)
        regression.G = np.vstack([regression.G, np.empty((1, len(z)))])
        regression.E = np.vstack([regression.E, np.empty((1, len(y)))])
        P = np.triu(regression.P) + np.triu(regression.P, 1).T
        scale = 1 / max(abs(z).max(initial=0.0) / LONGEST * regression.reach[0], 1.0)
        short = z * scale
        learn_row(
            regression.G.reshape(-1),
            regression.E.reshape(-1),
            n,
            short,
            P @ short,
            scale * (y - said[-1]),
            scale**2 * r,
            np.append(regression.G[:n] @ short, np.empty(4)),
            regression.diagonal,
            regression.top[0],
        )
    return np.array(said)


def mix(state, F, y, known=None):
    """Probabilities and weights of each row (F: B x heads x K), whose labels are learned."""
    known = F.shape[2] if known is None else known
    P = np.empty((len(F), known))
    weights = np.empty((len(F), F.shape[1] + 1))
    for f, label, p, w in zip(np.ascontiguousarray(F), y, P, weights, strict=True):
        work = np.empty(mixing_room(*f.shape))
        mix_row(Mixture(*state.values()), f, int(label), p, w, work)
    return P, weights
