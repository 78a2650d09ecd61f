"""What can be asked of `hedgerow compare`, and what is taken where nothing is said. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class InputFiles:
    """What is compared on: labelled sources, and the stream; unlabelled rows from a file, or the stream's first."""

    sources: tuple[Path, ...]
    stream: Path
    label: str
    unlabelled: Path | None = None
    warmup: float | None = None
    time: str | None = None


@dataclass(frozen=True)
class CompareOptions:
    """What is done with them. One order is the order in time; several are shuffled."""

    methods: str = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"
    orders: int = 1
    peers: bool = False
    jobs: int = -1
    out: Path = Path("hedgerow-compare")
    resume: bool = False
    plugins: tuple[str, ...] = ()
    engine: str = "local"
    data_dir: str | None = None  # what is read is in the folder
