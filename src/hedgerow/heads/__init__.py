"""Heads: the classifiers that live in a space. A head turns rows into scores and labels into better weights.

A head is an object with `block(W, Z, y) -> F`: the scores before each label, with W (K x d) updated in place. What a
head keeps beside W is its `memory`.
To add one, subclass `StepwiseHead`, write its `step`, and register it: `register_head("mine", Mine)`. An object can be
given as it is, `OnlineTransferClassifier(head=Mine())`; to be saved its class must be registered too.
"""

from __future__ import annotations

from functools import partial

from hedgerow.core.constants import RULES
from hedgerow.core.errors import InputError
from hedgerow.core.registry import Parts
from hedgerow.heads.base import Head, StepwiseHead, train
from hedgerow.heads.margin import AROW, AROW_RULES, PassiveAggressive

HEADS = Parts("head")
WITHOUT_C = ("perceptron", "pa")  # rules in which C plays no part
for _name in RULES:
    _fixed = {"C": 5.0} if _name in WITHOUT_C else {}
    HEADS.register(_name, partial(PassiveAggressive, rule=_name, **_fixed))
for _name in AROW_RULES:
    HEADS.register(_name, partial(AROW, rule=_name))


def register_head(name: str, head: type[Head], *, replace: bool = False) -> type[Head]:
    """Make a head class known by a name, for `OnlineTransferClassifier(head=name)` and for model files.

    >>> class Mine(PassiveAggressive): pass
    >>> register_head("mine", Mine) is HEADS["mine"]
    True
    >>> HEADS.unregister("mine")
    """
    HEADS.register(name, head, replace=replace)
    return head


def make_head(choice: str | Head, C: float | None = None) -> Head:
    """The head of this name, with aggressiveness C if it has one; an object stays as it is.

    >>> make_head("pa1", C=2.0)
    PassiveAggressive(rule='pa1', C=2.0)
    """
    head = HEADS.make(choice, {"C": C})
    if not isinstance(head, Head):
        raise InputError(f"head={choice!r}: give the name of a head, or an object of a subclass of hedgerow.heads.Head")
    return head


__all__ = ["AROW", "HEADS", "Head", "PassiveAggressive", "StepwiseHead", "make_head", "register_head", "train"]
