"""The heads of the margin in plain NumPy: the twin of their compiled loop."""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import PA, PA1_PRINTED, PA2, PERCEPTRON, RULES


def step(
    W: Array, z: Array, y: int, rule: str = "pa1", C: float = 5.0, S: Array | None = None
) -> Array:
    """One labelled row in plain NumPy (Eq. 1, 2, 4, 5; Alg. 1, lines 8 to 13): scores before the label; W, S in place.

    It is the specification of the compiled loop `hedgerow.kernels.experts.passes`.

    >>> W = np.zeros((2, 1))
    >>> step(W, np.array([2.0]), 1, "pa")
    array([0., 0.])
    >>> W.ravel().tolist()
    [-0.25, 0.25]
    """
    f = W @ z
    if len(W) < 2:  # no rival, nothing to learn
        return np.asarray(f)
    rivals = f.copy()
    rivals[y] = -np.inf
    s = int(rivals.argmax())
    u = z if S is None else S @ z if len(S) == len(z) else S[0] * z
    margin = float(f[y] - f[s])
    square = max(float(z @ u), 0.0)
    loss = 1 - margin
    if loss > 0 and square > 0:
        tau = _tau(RULES.get(rule, PA2), loss, margin, square, C)
        W[y] += tau * u
        W[s] -= tau * u
        if S is not None:
            S -= (np.outer(u, u) if len(S) == len(z) else u * u) / (square + 0.5 / C)
    return np.asarray(f)


def _tau(rule: int, loss: float, margin: float, square: float, C: float) -> float:
    if rule == PERCEPTRON:
        return float(margin <= 0)
    if rule == PA1_PRINTED:
        return C if margin == 0 else min(C, loss / abs(margin))
    if rule == PA2:
        return loss / (2 * square + 0.5 / C)
    tau = loss / (2 * square)
    return tau if rule == PA else min(C, tau)
