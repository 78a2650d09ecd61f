"""Methods: the table of recipes, the readings of the paper, and the offline stage that builds a learner from them."""

from __future__ import annotations

from hedgerow.methods.recipes import METHODS, ORIGINAL, OWN_STEPS, RECIPES, Recipe, register_method

__all__ = ["METHODS", "ORIGINAL", "OWN_STEPS", "RECIPES", "Recipe", "register_method"]
