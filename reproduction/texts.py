"""Tables, figures and sentences whose words stand in templates/words.toml."""

from __future__ import annotations

from functools import partial

from hedgerow.comparison import page, tables
from hedgerow.comparison.words import Words

WORDS = Words("hedgerow.comparison", "reproduction")
text = WORDS.text
table = partial(tables.table, WORDS)
figure = partial(page.figure, WORDS)
