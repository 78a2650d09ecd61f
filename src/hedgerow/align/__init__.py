"""Aligners: from a labelled source and unlabelled target rows to a common space, with a projection for new rows.

An aligner is a frozen dataclass of options with one method, `fit(source, codes, target) -> Alignment`. To add one,
write such a class and register it: `register_aligner("mine", Mine)`.
"""

from __future__ import annotations

from hedgerow.align.base import Aligner, Alignment, Identity, Info, Projection
from hedgerow.align.mmd import BDA, JDA, TCA
from hedgerow.align.refresh import refreshed
from hedgerow.align.spaces import CORAL, Landmarks, WhitenedPCA, Whitening
from hedgerow.core.registry import Parts

ALIGNERS = Parts("aligner")
for _name, _aligner in (
    ("identity", Identity),
    ("tca", TCA),
    ("jda", JDA),
    ("bda", BDA),
    ("coral", CORAL),
    ("whitening", Whitening),
    ("whitened-pca", WhitenedPCA),
    ("landmarks", Landmarks),
):
    ALIGNERS.register(_name, _aligner)


def register_aligner(name: str, aligner: type[Aligner], *, replace: bool = False) -> type[Aligner]:
    """Make an aligner class known by a name, for `OnlineTransferClassifier(aligner=name)`.

    >>> register_aligner("identity", Identity) is ALIGNERS["identity"]
    True
    """
    ALIGNERS.register(name, aligner, replace=replace)
    return aligner


__all__ = [
    "ALIGNERS",
    "BDA",
    "CORAL",
    "JDA",
    "TCA",
    "Aligner",
    "Alignment",
    "Identity",
    "Info",
    "Landmarks",
    "Projection",
    "WhitenedPCA",
    "Whitening",
    "refreshed",
    "register_aligner",
]
