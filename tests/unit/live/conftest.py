"""A fitted model for all tests of live models."""

from __future__ import annotations

import pytest
from support.live_models import make_model


@pytest.fixture(scope="session")
def oddm():
    return make_model("oddm")
