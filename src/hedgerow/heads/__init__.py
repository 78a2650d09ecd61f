"""Heads: the classifiers that live in a space. A head turns rows into scores and labels into better weights.

A head is an object with `block(W, Z, y) -> F`: the scores before each label, with W (K x d) updated in place. What a
head keeps beside W is its `memory`.
To add one, subclass `StepwiseHead`, write its `step`, and register it: `register_head("mine", Mine)`.
"""

from __future__ import annotations

from hedgerow.core.registry import Registry
from hedgerow.core.rule_numbers import RULES
from hedgerow.heads.arow import AROW, AROW_RULES
from hedgerow.heads.base import Head, StepwiseHead, train
from hedgerow.heads.pa import PassiveAggressive

HEADS: Registry[type[Head]] = Registry("head")
for _name in RULES:
    HEADS.register(_name, PassiveAggressive)
for _name in AROW_RULES:
    HEADS.register(_name, AROW)


def register_head(name: str, head: type[Head], *, replace: bool = False) -> type[Head]:
    """Make a head class, called as head(name, C), known by a name, for `OnlineTransferClassifier(head=name)`.

    >>> register_head("pa1", PassiveAggressive) is HEADS["pa1"]
    True
    """
    return HEADS.register(name, head, replace=replace)


def make_head(name: str, C: float) -> Head:
    """The head of this name with aggressiveness C.

    >>> make_head("pa1", C=5.0)
    PassiveAggressive(rule='pa1', C=5.0)
    """
    return HEADS[name](name, C)


__all__ = ["AROW", "HEADS", "Head", "PassiveAggressive", "StepwiseHead", "make_head", "register_head", "train"]
