"""The page of a model that predicts numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from support.looking import Service, axe, drawn, table

from hedgerow import OnlineTransferRegressor
from hedgerow.live import LiveModel


def test_errors_coverage_and_intervals_are_shown(
    tmp_path: Path, serve: Callable[..., Service], open_page: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(scale=0.1, size=200)
    model = OnlineTransferRegressor().fit(X[:100], y[:100], sample_domain=np.arange(100) % 2)
    LiveModel.create(tmp_path / "level", model).close()
    service = serve("--models", str(tmp_path)).ready()
    page = open_page(f"{service.url}/models/level")  # before its first event
    page.wait_for_selector("#facts:has-text('regression')")
    body = {"instances": X[100:].tolist(), "labels": y[100:].tolist()}
    httpx.post(f"{service.url}/v1/models/level/predict-then-learn", json=body).raise_for_status()
    stats = httpx.get(f"{service.url}/v1/models/level/stats").json()
    page.wait_for_selector("data#labels[value='100']")
    assert float(page.eval_on_selector("#rate-so-far", "node => node.value")) == stats["rmse"]
    assert float(page.eval_on_selector("#best-mistakes", "node => node.value")) == min(
        stats["expert_rmse"].values()
    )
    assert page.inner_text("#so-far-title") == "Error so far (RMSE)"
    assert not page.is_visible("#calibration-title")
    assert "inside" in page.inner_text(
        "#latest-rows tr:first-child .outcome"
    ) or "outside" in page.inner_text("#latest-rows tr:first-child .outcome")
    assert " to " in page.inner_text("#latest-rows tr:first-child .probability")
    assert page.locator("#so-far canvas").count() == 1
    page.click("#intervals summary")
    page.wait_for_selector("#intervals tbody tr")
    newest = httpx.get(f"{service.url}/v1/models/level/latest", params={"n": 100}).json()["events"]
    rows = {row[0]: [float(cell) for cell in row[1:]] for row in table(page, "#intervals tbody")}
    head = page.eval_on_selector_all(
        "#intervals thead th", "cells => cells.map(cell => cell.textContent)"
    )
    assert head == [
        "number of the event",
        "interval, upper end",
        "interval, lower end",
        "predicted",
        "label",
    ]
    shown = [event for event in newest if f"{event['number']:,}" in rows]
    assert len(shown) == len(rows) >= 50
    for event in shown:
        low, high = event["interval"]
        wanted = [high, low, event["prediction"], event["label"]]
        assert rows[f"{event['number']:,}"] == pytest.approx(wanted, rel=0.006)
    assert page.locator("#latest-rows tr").count() == 20
    before = drawn(page, "intervals")
    body = {"instances": X[100:103].tolist(), "labels": y[100:103].tolist()}
    httpx.post(f"{service.url}/v1/models/level/predict-then-learn", json=body).raise_for_status()
    page.wait_for_selector("data#labels[value='103']")
    assert drawn(page, "intervals") != before
    assert axe(page) == []
    listed = open_page(f"{service.url}/")
    listed.wait_for_selector("#rows .mistakes:has-text('RMSE')")
