"""How the pictures of the gallery look: set before each example, so that none depends on the one before."""

from __future__ import annotations

from typing import Any

STYLE = {
    "figure.figsize": (7.0, 3.4),
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "font.size": 10,
}


def reset(gallery_conf: dict[str, Any], fname: str) -> None:
    """Called by the gallery before an example is run."""
    import matplotlib as mpl

    mpl.rcParams.update(STYLE)
