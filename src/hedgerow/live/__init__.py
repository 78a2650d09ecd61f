"""A model that runs: predictions go out, labels follow, and nothing that was acknowledged is ever lost.

>>> import tempfile, hedgerow
>>> from hedgerow.live import LiveModel
>>> domains = hedgerow.load("digits")
>>> clf = hedgerow.OnlineTransferClassifier("paio").fit_domains([domains["thin"], domains["tilted"]])
>>> new = domains["shifted"]
>>> with tempfile.TemporaryDirectory() as folder, LiveModel.create(folder + "/digits", clf) as live:
...     answer = live.predict(new.X[0], id="a")
...     live.label("a", new.y[0]).status, live.label("a", new.y[0]).status, live.label("b", 1).status
('learned', 'already', 'unknown')
"""

from hedgerow.live.answers import Answer, Labelled
from hedgerow.live.errors import Busy, Closed, JournalError, Owned
from hedgerow.live.model import LiveModel
from hedgerow.live.settings import Settings

__all__ = ["Answer", "Busy", "Closed", "JournalError", "Labelled", "LiveModel", "Owned", "Settings"]
