"""What a shell may offer for a value after Tab. Each list is made only when it is asked for."""

from __future__ import annotations


def methods(incomplete: str) -> list[str]:
    """Names of methods; after a comma the next one, with what stands before it."""
    from hedgerow.methods import METHODS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in METHODS if name.startswith(last)]


def readings(incomplete: str) -> list[str]:
    """Presets of the options."""
    from hedgerow.methods import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def studies(incomplete: str) -> list[str]:
    """Names of studies."""
    from hedgerow.lab import STUDIES

    return [name for name in (*STUDIES, "all") if name.startswith(incomplete)]
