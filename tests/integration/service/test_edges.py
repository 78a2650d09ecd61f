"""A service at its edges: models that cannot be closed as usual, labels that are tuples."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from support.live_models import make_model, make_rows

from hedgerow import OnlineTransferClassifier
from hedgerow.live import LiveModel
from hedgerow.service import ServiceSettings
from hedgerow.service.models import Models

ROW = [0.1] * 6


@pytest.fixture
def folder(tmp_path):
    for name in ("first", "second"):
        LiveModel.create(tmp_path / "models" / name, make_model("pa")).close()
    return tmp_path / "models"


async def opened(folder):
    models = Models(folder, ServiceSettings())
    models.start()
    await models._opening
    return models


def break_disk(live):
    """From now on the journal cannot be written."""
    live.predict_then_learn(np.array([ROW]), [1])
    live._journal._db.execute("PRAGMA query_only = 1")


def test_a_model_that_cannot_take_its_last_snapshot_is_deleted_all_the_same(folder):
    async def main():
        models = await opened(folder)
        break_disk(models["first"].live)
        await models.delete("first")
        assert [entry.name for entry in models] == ["second"]
        await models.close()

    asyncio.run(main())
    assert not (folder / "first").exists()


def test_a_model_that_cannot_be_closed_does_not_keep_the_others_open(folder):
    async def main():
        models = await opened(folder)
        break_disk(models["first"].live)
        await models.close()

    asyncio.run(main())
    for name in ("first", "second"):
        LiveModel.open(folder / name).close()  # nobody has them


def test_a_model_whose_labels_are_tuples_is_served(tmp_path):
    A, a = make_rows(1, 60)
    labels = np.empty(60, dtype=object)
    labels[:] = [("t", int(label)) for label in a]
    clf = OnlineTransferClassifier("pa").fit(A, labels, sample_domain=np.repeat([0, 1], 30))
    LiveModel.create(tmp_path / "models" / "tuples", clf).close()

    async def main():
        models = await opened(tmp_path / "models")
        assert models["tuples"].error is None
        await models.close()

    asyncio.run(main())
