"""Tables as they are: columns of every kind become numbers, in the same way wherever rows come in."""

from __future__ import annotations

from hedgerow.tables.encoder import TableEncoder
from hedgerow.tables.learning import learn
from hedgerow.tables.options import TableOptions

__all__ = ["TableEncoder", "TableOptions", "learn"]
