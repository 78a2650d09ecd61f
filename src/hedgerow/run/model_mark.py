"""Which model a journal was begun with: the same command must not go on with another one unnoticed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.run.engine import Engine, Marks
from hedgerow.run.job import Job


def model_mark(path: Path) -> Marks:
    """The mark for a model file."""
    return {"model": hashlib.sha256(path.read_bytes()).hexdigest().encode()}


def check_model(job: Job, engine: Engine) -> None:
    """Refuse a model that is not the journal's; take note of it in a new journal."""
    known, given = engine.mark("model"), model_mark(job.model)
    if known is None:
        engine.together(lambda: (None, given))
    elif known != given["model"]:
        raise InputError(
            f"the journal {job.journal} was begun with another model than {job.model} is now; give that model, or "
            "begin another journal"
        )
