"""Many targets, one set of sources: a model for every key, of which each keeps only what its own labels changed."""

from hedgerow.fleet.base import Base, DeadLetter, KeyState, Member, Settings
from hedgerow.fleet.fleet import Fleet, Target

__all__ = ["Base", "DeadLetter", "Fleet", "KeyState", "Member", "Settings", "Target"]
