"""Many targets, one set of sources: a model for every key, of which each keeps only what its own labels changed."""

from hedgerow.fleet.base import Base
from hedgerow.fleet.fleet import Fleet, Target
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.keys import DeadLetter
from hedgerow.fleet.member import Member

__all__ = ["Base", "DeadLetter", "Fleet", "KeyState", "Member", "Target"]
