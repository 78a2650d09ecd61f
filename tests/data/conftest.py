import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the published files; elsewhere than in CI, tests that need it are skipped."""
    folder = os.environ.get("HEDGEROW_DATA")
    if folder:
        return Path(folder)
    message = "HEDGEROW_DATA is not set: the published files are not at hand"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
