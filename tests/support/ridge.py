"""Rows through the compiled loops of our own learner, without a model around them."""

from __future__ import annotations

import numpy as np

from hedgerow.kernels.ridge import Mixture, learn_row, mix_row, mixing_room
from hedgerow.ridge import mixture
from hedgerow.ridge.regression import Regressions

NEVER = np.inf  # noise of a row that is predicted and not learned


class Sides:
    """One regression as if it stood beside others."""

    def __init__(self, each):
        self.each, self.diagonal, self.d = each, each[0].diagonal, [slice(0, len(each[0].P))]


def fits(regression, Z):
    """What the heads say of rows by all that was learned."""
    n = int(regression.pending[0])
    return Z @ regression.M + (Z @ regression.G[:n].T) @ regression.E[:n]


def learn(regression, Z, Y, noise):
    """Rows one after the other, those with a noise as pending rows; the fits before each label."""
    said = []
    for z, y, r in zip(Z, Y, noise, strict=True):
        said.append(fits(regression, z[None])[0])
        if r == NEVER:
            continue
        n = int(regression.pending[0])
        if n == len(regression.G):
            regression.G = np.vstack([regression.G, np.empty((n + 1, len(z)))])
            regression.E = np.vstack([regression.E, np.empty((n + 1, len(y)))])
        P = np.triu(regression.P) + np.triu(regression.P, 1).T
        G, E = regression.G.reshape(-1), regression.E.reshape(-1)
        short = z.copy()
        scale = Regressions.shorten(Sides([regression]), short[None])[0, 0]
        along, missed, noise = np.append(regression.G[:n] @ short, np.empty(4)), scale * (y - said[-1]), scale**2 * r
        learn_row(G, E, n, 0, short, P @ short, missed, noise, along, regression.diagonal, regression.top[0])
        regression.pending[0] += 1
    return np.array(said)


def mix(state, F, y, known=None):
    """Probabilities and weights of each row (F: B x heads x K), whose labels are learned."""
    known = F.shape[2] if known is None else known
    P, weights = np.empty((len(F), known)), np.empty((len(F), F.shape[1] + 1))
    for f, label, p, w in zip(np.ascontiguousarray(F), y, P, weights, strict=True):
        work = np.empty(mixing_room(*f.shape))
        mix_row(Mixture(*mixture.parts(state)), f, int(label), p, w, work)
    return P, weights
