"""Rules by name and by the number the compiled loops know them by: updates of heads, gaps of unseen classes."""

from __future__ import annotations

PERCEPTRON, PA, PA1, PA2, PA1_PRINTED = range(5)

RULES = {"perceptron": PERCEPTRON, "pa": PA, "pa1": PA1, "pa2": PA2, "pa1-printed": PA1_PRINTED}

ZERO, SKIP, SHRINK = range(3)

UNSEEN = {"zero": ZERO, "skip": SKIP, "shrink": SHRINK}
