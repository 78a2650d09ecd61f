"""Methods: the table of recipes, which options each one reads, and the offline stage that builds a learner."""

from __future__ import annotations

from hedgerow.experts.recipe import ORIGINAL, Recipe
from hedgerow.learners.method import Method, Options
from hedgerow.learners.readings import Reading, reading_of
from hedgerow.methods.build import METHODS, OWN_STEPS, RECIPES, register_method

__all__ = [
    "METHODS",
    "ORIGINAL",
    "OWN_STEPS",
    "RECIPES",
    "Method",
    "Options",
    "Reading",
    "Recipe",
    "reading_of",
    "register_method",
]
