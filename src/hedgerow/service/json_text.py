"""Answers as JSON that every reader takes: no NaN, no infinity, no NumPy."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from starlette.responses import Response


def finite(value: Any) -> Any:
    """A value that JSON can say; a number that is not finite is null.

    >>> finite({"a": [1.0, float("nan")], 2: np.float64(0.5)})
    {'a': [1.0, None], '2': 0.5}
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return finite(value.tolist())
    return value


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return Response(text, status, headers, media_type="application/json")
