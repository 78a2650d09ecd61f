"""What can be asked of `hedgerow study`, and what is taken where nothing is said. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# the data sets, and the target of each where none is named
TARGETS = {"digits": "shifted", "office-caltech": "webcam", "pie": "PIE5", "amazon-reviews": "kitchen"}


@dataclass(frozen=True)
class StudyOptions:
    """The options of the command; `target` may join several by commas, and without one the data's own is taken."""

    name: str
    data: str = "digits"
    target: str | None = None
    methods: str = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"
    orders: int = 5
    jobs: int = -1
    data_dir: str | None = None
    out: Path = Path("hedgerow-study")
    resume: bool = False
    plugins: tuple[str, ...] = ()
    engine: str = "local"
