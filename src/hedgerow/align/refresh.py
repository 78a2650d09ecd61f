"""The online update of a projection, in its plain form: A <- (I + mu sum_k g_k g_k^T)^{-1} A (Eq. 13).

By default `oddm` does it in products of vectors alone, `experts/refresh.py`; tests hold that form to this one.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import unknown
from hedgerow.core.linalg import shrink_along

INVERSES = ("woodbury", "pinv")


def refreshed(A: Array, G: Array, mu: float, inverse: str = "woodbury") -> Array:
    """argmin_B |B - A|_F^2 + mu sum_k |B^T g_k|^2 (Eq. 12) = (I + mu G^T G)^{-1} A (Eq. 13; Alg. 1, line 16), m x d.

    I + mu G^T G has no eigenvalue below 1, so the pseudo-inverse that the paper keeps for the singular case is never
    needed; `inverse="pinv"` takes it all the same, as printed, and gives the same numbers at m^3 the price.

    >>> A, G = np.eye(2), np.array([[1.0, 0.0], [0.0, 0.0]])
    >>> refreshed(A, G, 1.0), np.allclose(refreshed(A, G, 1.0), refreshed(A, G, 1.0, "pinv"))
    (array([[0.5, 0. ],
           [0. , 1. ]]), True)
    """
    if inverse == "pinv":
        return np.asarray(np.linalg.pinv(np.eye(len(A)) + mu * G.T @ G) @ A)
    if inverse != "woodbury":
        raise unknown("inverse", inverse, INVERSES)
    return shrink_along(A, G[G.any(axis=1)], mu)
