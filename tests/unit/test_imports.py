"""Importing the package is cheap: NumPy at most; scipy, scikit-learn, numba and pandas come when somebody uses them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "scipy",
    "sklearn",
    "numba",
    "pandas",
    "safetensors",
    "matplotlib",
    "h5py",
    "pooch",
    "cyclopts",
    "rich",
)


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import hedgerow",
        "import hedgerow; hedgerow.Domain('a', [[1.0, 2.0]], ['x']); hedgerow.split; hedgerow.HedgerowError",
        "import hedgerow; hedgerow.METHODS['oddm']; hedgerow.Moments",
    ],
)
def test_what_is_cheap(code):
    assert not loaded_after(code) & set(HEAVY)


def test_every_public_name_is_there():
    import hedgerow

    assert set(hedgerow.__all__) == set(dir(hedgerow))
    for name in hedgerow.__all__:
        assert getattr(hedgerow, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hedgerow.nonsense  # noqa: B018
