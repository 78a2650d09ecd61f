"""Which model a journal was begun with: the same command must not go on with another one unnoticed."""

from __future__ import annotations

import hashlib

from hedgerow.core.errors import InputError
from hedgerow.run.engine import Engine, Marks
from hedgerow.run.job import Job


def mark_of(data: bytes) -> Marks:
    """The mark for the content of a model file."""
    return {"model": hashlib.sha256(data).hexdigest().encode()}


def check_model(job: Job, engine: Engine) -> None:
    """Refuse a model that is not the journal's; take note of it in a new journal."""
    known, given = engine.mark("model"), mark_of(job.model.read_bytes())
    if known is None:
        engine.together(lambda: (None, given))
    elif given["model"] not in known.split():
        raise InputError(
            f"the journal {job.journal} was begun with another model than {job.model} is now; give that model, or "
            "begin another journal"
        )
