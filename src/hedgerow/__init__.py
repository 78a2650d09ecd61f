"""hedgerow: online transfer learning.

Labelled data of other domains is there in advance, a new target domain starts to stream, labels come after the
predictions: good from the first instance, better with every label.

>>> import hedgerow
>>> sorted(hedgerow.load("digits"))[:1] != []
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.align import register_aligner
    from hedgerow.core.domains import Domain, split
    from hedgerow.core.errors import HedgerowError
    from hedgerow.core.moments import Moments
    from hedgerow.data import load, read
    from hedgerow.estimator import OnlineTransferClassifier
    from hedgerow.heads import register_head
    from hedgerow.methods import METHODS, Recipe, register_method

__version__ = "0.1.0"

# Names are loaded when first used, so that `import hedgerow` costs little.
_HOMES = {
    "Domain": "core.domains",
    "HedgerowError": "core.errors",
    "METHODS": "methods",
    "Moments": "core.moments",
    "OnlineTransferClassifier": "estimator",
    "Recipe": "methods",
    "load": "data",
    "read": "data",
    "register_aligner": "align",
    "register_head": "heads",
    "register_method": "methods",
    "split": "core.domains",
}

__all__ = [
    "METHODS",
    "Domain",
    "HedgerowError",
    "Moments",
    "OnlineTransferClassifier",
    "Recipe",
    "__version__",
    "load",
    "read",
    "register_aligner",
    "register_head",
    "register_method",
    "split",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hedgerow.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
