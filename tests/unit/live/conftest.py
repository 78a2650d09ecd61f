"""A fitted model for all tests of live models, and a live one made of it."""

from __future__ import annotations

import pytest
from support.live_models import make_model

from hedgerow.live import LiveModel


@pytest.fixture(scope="session")
def oddm():
    return make_model("oddm")


@pytest.fixture
def live(tmp_path, oddm):
    with LiveModel.create(tmp_path / "live", oddm) as made:
        yield made
