"""Multiclass passive-aggressive learning (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer 2006), and the perceptron.

    f = W z,   s = argmax_{k != y} f_k        the rival of the true class (Eq. 1 of the paper)
    loss = max(0, 1 - f_y + f_s)              (Eq. 2)
    if loss > 0:  W_y += tau z,  W_s -= tau z (Eq. 4, the solution of Eq. 3)

| rule          | tau                                                                          |
|---------------|------------------------------------------------------------------------------|
| `perceptron`  | 1 on a mistake (f_y <= f_s), else 0                                          |
| `pa`          | loss / (2 |z|^2): the margin is exactly 1 afterwards (Eq. 3 as it stands)    |
| `pa1`         | min(C, loss / (2 |z|^2)): what Eq. 5 means                                   |
| `pa2`         | loss / (2 |z|^2 + 1/(2C))                                                    |
| `pa1-printed` | min(C, loss / |f_y - f_s|), C where that is 0/0: Eq. 5 as printed, a misprint |

sum_k W_k never changes. Ties go to the lowest class. A zero row teaches nothing. A label of weight w has w C in place
of C; where there is no C (`perceptron`, `pa`), any weight above zero is one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.rule_numbers import PA, PA1_PRINTED, PA2, PERCEPTRON, RULES
from hedgerow.heads.base import Head
from hedgerow.kernels import EVEN


@dataclass(frozen=True)
class PassiveAggressive(Head):
    """A head of the passive-aggressive family, run by the compiled loop; a subclass runs by its own methods.

    >>> head, W = PassiveAggressive("pa"), np.zeros((3, 2))
    >>> head.block(W, np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([2, 2]))
    array([[ 0. ,  0. ,  0. ],
           [-0.5,  0. ,  0.5]])
    """

    rule: str = "pa1"
    C: float = 5.0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise unknown("update rule", self.rule, RULES)
        if not self.C > 0:
            raise InputError(f"C={self.C}: the aggressiveness must be positive")

    @property
    def compiled(self) -> bool:
        """Whether the compiled loops, which know these rules and no others, may stand in for its methods."""
        return type(self) is PassiveAggressive

    def block(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Prequential scores of a block; W in place."""
        from hedgerow.kernels import heads as kernels

        return kernels.run_pass(W, Z, y, RULES[self.rule], self.C, weight)[0]

    def blocks(
        self,
        W: Array,
        which: Array,
        space: Array,
        Z: Array,
        y: Array,
        weight: Array | None,
        F: Array,
        memory: Array | None = None,
    ) -> None:
        """All heads in one compiled loop."""
        if not self.compiled:
            super().blocks(W, which, space, Z, y, weight, F, memory)
            return
        from hedgerow.kernels import heads as kernels

        even = EVEN if weight is None else weight
        kernels.passes(W, which, space, Z, y, even, RULES[self.rule], float(self.C), F)

    def averaged(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Mean of the weights after each row."""
        from hedgerow.kernels import heads as kernels

        return kernels.run_pass(W, Z, y, RULES[self.rule], self.C, weight, average=True)[1]


def step(W: Array, z: Array, y: int, rule: str = "pa1", C: float = 5.0) -> Array:
    """One labelled row in plain NumPy (Eq. 1, 2, 4, 5; Alg. 1, lines 8 to 13): scores before the label, W in place.

    It is the specification of the compiled loop `kernels.heads.learn_row`.

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
    margin, square = float(f[y] - f[s]), float(z @ z)
    loss = 1 - margin
    if loss > 0 and square > 0:
        tau = _tau(RULES[rule], loss, margin, square, C)
        W[y] += tau * z
        W[s] -= tau * z
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
