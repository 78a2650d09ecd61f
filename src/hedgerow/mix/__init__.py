"""Mixers: how the experts' scores become one prediction, who is trusted how much, and what can be guaranteed.

The first three keep one number an expert, its loss so far L_e, and weigh it by exp(-eta_t L_e). The losses do not
depend on the weights, so a block of instances is a running sum and one product: no loop. The others keep more, and take
one step for each label about which the experts differ.

| mixer               | loss of expert e                        | averaged advice           | eta                    |
|---------------------|-----------------------------------------|---------------------------|------------------------|
| `Hedge`             | [yhat_e != y]                           | scores f_e, or votes      | ln(1/beta), or anytime |
| `LossBased`         | 1/2 |q_e - e_y|^2 (HomOTL-I), or margin | points q_e, or scores     | 1/2                    |
| `LogLoss`           | -ln q_{e,y}, q_e = softmax(c f_e)       | points q_e                | 1                      |
| `AdaHedge`          | [yhat_e != y]                           | scores f_e, or votes      | ln N/sum of the gaps   |
| `Squint`            | [yhat_e != y]                           | scores f_e, or votes      | a grid                 |
| `FixedShare`        | [yhat_e != y]                           | scores f_e, or votes      | a grid                 |
| `FixedShareLogLoss` | -ln q_{e,y}                             | points q_e                | 1                      |
| `Single`            | [yhat != y]                             | scores of the only expert | -                      |

Anytime Hedge is the horizon rule with the labels so far in place of T: beta_t = sqrt t/(sqrt t + sqrt ln N) in round t.
For any non-increasing rate the weighted loss is at most M_min + ln N/eta_T + sum_t eta_t/8 (Györfi and Ottucsák 2007),
which is here at most M_min + 5/4 sqrt(T ln N) + ln N.
"""

from __future__ import annotations

from hedgerow.core.errors import InputError
from hedgerow.core.registry import Parts
from hedgerow.mix.adaptive import AdaHedge, FixedShare, FixedShareLogLoss, Squint
from hedgerow.mix.base import Exponential, Mixed, Mixer, Stepwise, simplex_projection, softmax, votes
from hedgerow.mix.hedge import Hedge, Single, horizon_beta
from hedgerow.mix.simplex import LogLoss, LossBased

MIXERS = Parts("mixer")
for _name, _mixer in (
    ("hedge", Hedge),
    ("adahedge", AdaHedge),
    ("squint", Squint),
    ("fixed-share", FixedShare),
    ("fixed-share-log-loss", FixedShareLogLoss),
    ("loss", LossBased),
    ("log-loss", LogLoss),
    ("single", Single),
):
    MIXERS.register(_name, _mixer)


def register_mixer(name: str, mixer: type[Mixer], *, replace: bool = False) -> type[Mixer]:
    """Make a mixer class known by a name, for `OnlineTransferClassifier(mixer=name)` and for model files.

    >>> register_mixer("hedge", Hedge) is MIXERS["hedge"]
    True
    """
    MIXERS.register(name, mixer, replace=replace)
    return mixer


def make_mixer(choice: str | Mixer, **options: object) -> Mixer:
    """The mixer of this name with those of the options that it has; an object stays as it is.

    >>> make_mixer("hedge", beta=0.5, combination="vote")
    Hedge(beta=0.5, combination='vote', proof='proved')
    """
    mixer = MIXERS.make(choice, options)
    if not isinstance(mixer, Mixer):
        raise InputError(f"mixer={choice!r}: give the name of a mixer, or an object of a subclass of Mixer")
    return mixer


__all__ = [
    "MIXERS",
    "AdaHedge",
    "Exponential",
    "FixedShare",
    "FixedShareLogLoss",
    "Hedge",
    "LogLoss",
    "LossBased",
    "Mixed",
    "Mixer",
    "Single",
    "Squint",
    "Stepwise",
    "horizon_beta",
    "make_mixer",
    "register_mixer",
    "simplex_projection",
    "softmax",
    "votes",
]
