"""hedgerow: online transfer learning.

Labelled data of other domains is there in advance, a new target domain starts to stream, labels come after the
predictions: good from the first instance, better with every label.

>>> import hedgerow
>>> domains = hedgerow.load("digits")
>>> warmup, stream = hedgerow.split(domains["shifted"], warmup=0.3, seed=0)
>>> clf = hedgerow.OnlineTransferClassifier("homotlms").fit_domains([domains["tilted"], domains["faded"]], warmup)
>>> predictions = clf.predict_then_learn(stream.X, stream.y)
>>> int((predictions != stream.y).sum()), len(stream.y)
(56, 248)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.align import register_aligner as register_aligner
    from hedgerow.comparison.compare import compare as compare
    from hedgerow.comparison.compare import compare_domains as compare_domains
    from hedgerow.core.constants import Constants as Constants
    from hedgerow.core.domains import Domain as Domain
    from hedgerow.core.domains import split as split
    from hedgerow.core.errors import HedgerowError as HedgerowError
    from hedgerow.core.errors import InputError as InputError
    from hedgerow.core.moments import Moments as Moments
    from hedgerow.data import load as load
    from hedgerow.data import read as read
    from hedgerow.estimator import OnlineTransferClassifier as OnlineTransferClassifier
    from hedgerow.heads import register_head as register_head
    from hedgerow.methods import METHODS as METHODS
    from hedgerow.methods import PaperOptions as PaperOptions
    from hedgerow.methods import Reading as Reading
    from hedgerow.methods import Recipe as Recipe
    from hedgerow.methods import reading_of as reading_of
    from hedgerow.mix import register_mixer as register_mixer
    from hedgerow.regressor import OnlineTransferRegressor as OnlineTransferRegressor
    from hedgerow.regressor import load_model as load_model
    from hedgerow.rows.parquet import ParquetSource as ParquetSource

__version__ = "0.2.0"

# Names are loaded when first used, so that `import hedgerow` costs little.
_HOMES = {
    "Constants": "core.constants",
    "Domain": "core.domains",
    "HedgerowError": "core.errors",
    "InputError": "core.errors",
    "METHODS": "methods",
    "Moments": "core.moments",
    "OnlineTransferClassifier": "estimator",
    "OnlineTransferRegressor": "regressor",
    "PaperOptions": "methods",
    "ParquetSource": "rows.parquet",
    "Reading": "methods",
    "Recipe": "methods",
    "compare": "comparison.compare",
    "compare_domains": "comparison.compare",
    "load": "data",
    "load_model": "regressor",
    "read": "data",
    "reading_of": "methods",
    "register_aligner": "align",
    "register_head": "heads",
    "register_mixer": "mix",
    "split": "core.domains",
}

__all__ = [*_HOMES, "__version__"]


if not TYPE_CHECKING:  # so that a type checker knows a wrong name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")
        return getattr(importlib.import_module(f"hedgerow.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
