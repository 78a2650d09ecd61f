"""Many targets, one set of sources: a learner for every key, of which each keeps only what its own labels changed."""

from hedgerow.fleet.base import Base
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.member import Member

__all__ = ["Base", "KeyState", "Member"]
