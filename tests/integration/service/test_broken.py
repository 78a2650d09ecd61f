"""One model or fleet that fails is one line: everybody else is served, and it is opened again when it can be."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import numpy as np
import pytest

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.fleet import Fleet
from hedgerow.live import JournalError, LiveModel
from hedgerow.service import ServiceSettings
from hedgerow.service.app import build
from hedgerow.service.operations import OPERATIONS
from hedgerow.store import Closed

ROW = [1.0, 2.0, 3.0]
MOST = 3  # requests that may wait


@pytest.fixture
def app(models, clf):
    """Models `other` and `site`, and a fleet `shops`."""
    LiveModel.create(models / "other", clf).close()
    Fleet(clf, path=models / "shops").close()
    return build(ServiceSettings(models=models, max_waiting=MOST, request_timeout=0.5))


def fail(*_):
    raise OverflowError("secret 271828")


def value(text, metric):
    [line] = [line for line in text.splitlines() if line.startswith(f"{metric} ")]
    return float(line.rpartition(" ")[2])


async def lines(http):
    """What all lists say of what is ready: names with their errors."""
    found = [
        (await http.get(f"/v1/{kind}")).raise_for_status().json()[kind]
        for kind in ("models", "fleets")
    ]
    metrics = (await http.get("/metrics")).raise_for_status().text
    named = {one["name"]: one for kind in found for one in kind}
    for name, one in named.items():
        kind = "fleet" if name == "shops" else "model"
        assert value(metrics, f'hedgerow_{kind}_ready{{{kind}="{name}"}}') == one["ready"], name
        alone = (await http.get(f"/v1/{kind}s/{name}")).raise_for_status().json()
        assert (alone["ready"], alone.get("error")) == (one["ready"], one.get("error"))
    return {name: one.get("error", "") for name, one in named.items()}, metrics


@pytest.mark.parametrize("name", ["site", "shops"])
def test_what_cannot_say_how_it_is_has_a_line_that_says_so(app, with_client, monkeypatch, name):
    async def work(http, models):
        monkeypatch.setattr(models[name].opened, "stats", fail)
        monkeypatch.setattr(models[name], "about", fail)
        return await lines(http)

    errors, metrics = with_client(app, work)
    assert errors.pop(name) == "internal error (OverflowError)"
    assert set(errors.values()) == {""}
    assert "271828" not in metrics


def test_what_utf8_cannot_write_keeps_no_list_from_being_made(models, with_client):
    """A class and a source of a model that was made elsewhere, which all lists name."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    source = Domain("\udfff", X, np.array(["up", "\ud800"] * 20))
    LiveModel.create(models / "odd", OnlineTransferClassifier().fit_domains([source])).close()
    app = build(ServiceSettings(models=models))

    async def work(http, _):
        path = "/v1/models/odd"
        body = {"instances": X.tolist(), "labels": ["up", "new"] * 20, "explain": True}
        answers = [await http.post(f"{path}/predict-then-learn", json=body)]
        asked = ("/v1/models", "/metrics", path, f"{path}/stats", f"{path}/latest")
        answers += [await http.get(what) for what in asked]
        return [answer.raise_for_status() for answer in answers]

    _, listed, metrics, *_ = with_client(app, work)
    assert listed.json()["models"][0]["classes"] == ["up", "?", "new"]
    assert 'source="\\\\udfff"' in metrics.text


def test_what_is_busy_has_a_line_and_keeps_nobody_waiting(app, with_client, monkeypatch):
    monkeypatch.setattr("hedgerow.service.models.LINE_SECONDS", 0.2)
    release = threading.Event()

    async def work(http, models):
        models["site"].reads.submit(release.wait, 30)
        late = [
            await http.get("/v1/models/site/stats"),
            await http.post("/v1/models/site/explain", json={"instance": ROW}),
        ]
        began = time.monotonic()
        assert (await http.get("/v1/models/other/stats")).status_code == 200
        errors, _ = await lines(http)
        release.set()
        return late, errors, time.monotonic() - began

    late, errors, seconds = with_client(app, work)
    assert [answer.status_code for answer in late] == [504, 504]
    assert errors == {"site": "it did not answer within 0.2 s", "other": "", "shops": ""}
    assert seconds < 5


def close_itself(entry, monkeypatch):
    """What is on disk cannot be read back after an error, as where the disk is full at the wrong moment."""
    opened = entry.opened
    if isinstance(opened, LiveModel):
        monkeypatch.setattr(opened._journal, "add_many", fail)
        monkeypatch.setattr(opened._journal, "rollback", fail)
        with pytest.raises(OverflowError):
            opened.predict(ROW, "lost")
    else:
        monkeypatch.setattr(opened._holder, "run", fail)
        with pytest.raises(Closed, match="what was asked is on disk"):
            opened.learn(["a"], [ROW], ["up"])
    assert opened.closed


@pytest.mark.parametrize("name", ["site", "shops"])
def test_what_closed_itself_is_one_line_and_is_opened_again_when_it_can_be(
    app, with_client, monkeypatch, name
):
    monkeypatch.setattr("hedgerow.service.models.LOOK_EVERY", 0.05)
    monkeypatch.setattr("hedgerow.service.models.AGAIN", 0.1)
    kind = LiveModel if name == "site" else Fleet
    path = f"/v1/{kind.__name__[-5:].lower()}s/{name}"
    opened = kind.open
    allowed = threading.Event()

    def open_later(folder, **options):
        if not allowed.is_set():
            raise JournalError(f"{folder}: the disk is full")
        return opened(folder, **options)

    async def work(http, models):
        entry = models[name]
        body = {"instances": [ROW], "labels": ["up"]} | ({} if name == "site" else {"keys": ["a"]})
        call = "predict-then-learn" if name == "site" else "learn"
        (await http.post(f"{path}/{call}", json=body)).raise_for_status()
        if name == "site":
            monkeypatch.setattr(entry.opened, "alarms", lambda: [{"rule": "drift"}])
        await lines(http)
        monkeypatch.setattr(kind, "open", open_later)
        close_itself(entry, monkeypatch)
        broken = await lines(http)
        counts = (await http.get("/readyz")).json()["models"]
        refused = [await http.get(f"{path}/{what}") for what in ("ready", "stats")]
        await asyncio.sleep(0.5)
        later = await lines(http)
        allowed.set()
        while (await http.get(f"{path}/ready")).status_code != 200:
            await asyncio.sleep(0.02)
        again = await lines(http)
        return broken, counts, refused, later, again, await http.get(f"{path}/stats"), entry

    broken, counts, refused, later, again, stats, entry = with_client(app, work)
    assert "closed itself" in broken[0].pop(name)
    assert set(broken[0].values()) == {""}
    assert counts == {"ready": 2, "failed": 1}
    assert [answer.status_code for answer in refused] == [503, 503]
    assert later[0][name] == "shops: the disk is full".replace("shops", name)
    if name == "site":  # an alarm that held is not over since its model is broken
        assert value(later[1], 'hedgerow_model_alarms{model="site",rule="drift"}') == 1
        assert stats.json()["labels"] == 1
    assert set(again[0].values()) == {""}
    assert entry.error is None


BOUNDED = [
    one
    for one in OPERATIONS
    if one.path.count("/") > 3 and not one.gives and not one.path.endswith("/ready")
]


@pytest.mark.parametrize("one", BOUNDED, ids=[one.id for one in BOUNDED])
def test_every_call_of_a_model_takes_the_same_bound(app, with_client, one):
    event = {
        "ids": ["a"],
        "keys": ["a"],
        "instances": [ROW],
        "labels": ["up"],
        "key": "a",
        "instance": ROW,
    }
    if one.id in ("label", "fleet_label"):
        key = {"key": "a"} if one.id == "fleet_label" else {}
        event["labels"] = [{"id": "a", "label": "up"} | key]
    body = {name: event[name] for name in event if one.body and name in one.body.__struct_fields__}

    async def work(http, models):
        name = "shops" if "fleets" in one.path else "site"
        models[name].waiting = MOST
        busy = await http.request(one.method, one.path.format(name=name), json=body)
        models[name].waiting = 0
        return busy, await http.request(one.method, one.path.format(name=name), json=body)

    busy, answer = with_client(app, work)
    assert (busy.status_code, busy.json()["type"]) == (429, "/problems/busy"), busy.text
    assert answer.is_success, answer.text


def test_an_export_that_lacks_its_package_says_what_to_install(app, with_client, monkeypatch):
    async def work(http, _):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        return await http.get("/v1/models/site/export?format=parquet")

    answer = with_client(app, work)
    assert (answer.status_code, answer.json()["type"]) == (501, "/problems/not-installed")
    assert "pip install 'hedgerow[files]'" in answer.json()["detail"]
    assert "retry-after" not in answer.headers
