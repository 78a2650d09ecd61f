"""Mixers: how the experts' scores become one prediction, who is trusted how much, and what can be guaranteed.

All mixers here keep one number an expert, its loss so far L_e, and weigh it by exp(-eta_t L_e). The losses do not
depend on the weights, so a block of instances is a running sum and one product: no loop.

| mixer       | loss of expert e                             | averaged advice               | eta                    |
|-------------|----------------------------------------------|-------------------------------|------------------------|
| `Hedge`     | [yhat_e != y]                                | scores f_e, or votes          | ln(1/beta), or anytime |
| `LossBased` | 1/2 |q_e - e_y|^2 (HomOTL-I), or of a margin | q_e on the simplex, or scores | 1/2                    |
| `LogLoss`   | -ln q_{e,y}, q_e = softmax(c f_e)            | q_e on the simplex            | 1                      |
| `Single`    | [yhat != y]                                  | scores of the only expert     | -                      |

Anytime Hedge is the horizon rule with the labels so far in place of T: beta_t = sqrt t/(sqrt t + sqrt ln N) in round t.
For any non-increasing rate the weighted loss is at most M_min + ln N/eta_T + sum_t eta_t/8 (Györfi and Ottucsák 2007),
which is here at most M_min + 5/4 sqrt(T ln N) + ln N.
"""

from __future__ import annotations

from hedgerow.mix.base import Exponential, Mixed, Mixer, simplex_projection, softmax, votes
from hedgerow.mix.hedge import Hedge, Single, horizon_beta
from hedgerow.mix.simplex import LogLoss, LossBased

__all__ = [
    "Exponential",
    "Hedge",
    "LogLoss",
    "LossBased",
    "Mixed",
    "Mixer",
    "Single",
    "horizon_beta",
    "simplex_projection",
    "softmax",
    "votes",
]
