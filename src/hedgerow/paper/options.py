"""What can be asked of `hedgerow paper`, and what is taken where nothing is said. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# the parts of the report, and the groups of runs that each one needs
PARTS = {
    "table": ("table",),
    "curves": ("table",),
    "discrepancy": ("table",),
    "stats": ("table",),
    "time": ("table",),
    "bound": ("table", "mixers"),
    "sensitivity-C": ("sensitivity-C",),
    "sensitivity-Tw": ("sensitivity-Tw",),
    "ablation": ("table", "ablation"),
    "refresh": ("refresh",),
    "inputs": ("table", "inputs"),
    "definitions": ("definitions",),
}


@dataclass(frozen=True)
class PaperOptions:
    """The options of the command; names are joined by commas."""

    tasks: str = "all"
    methods: str = "all"
    trials: int = 20
    splits: int = 1
    reading: str = "table"
    what: str = "table,curves,discrepancy,bound,stats,time"
    jobs: int = -1
    data_dir: str | None = None
    out: Path = Path("hedgerow-paper")
    resume: bool = False
    plugins: tuple[str, ...] = ()
    engine: str = "local"
