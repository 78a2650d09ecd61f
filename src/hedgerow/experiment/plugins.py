"""Python files of users that register methods, aligners, heads or mixers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from hedgerow.core.errors import InputError


def load_plugin(path: str | Path) -> None:
    """Run a file that registers a method, an aligner or a head; a second call for the same file does nothing."""
    file = Path(path).resolve()
    if not file.is_file():
        raise InputError(f"no plugin at {path}")
    name = f"hedgerow_plugin_{file.stem}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
