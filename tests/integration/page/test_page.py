"""The page in a real browser, over a real service: what it shows is what the API says, and it moves."""

from __future__ import annotations

import subprocess

import pytest
from support.looking import NONE, axe, drawn, share, table, text, value, wait_for


def test_before_the_first_event_the_page_says_what_to_type_and_that_works(service, open_page):
    page = open_page(f"{service.url}/models/new")
    wait_for(page, "#connection", "live")
    assert page.inner_text("h1") == "new"
    assert page.is_visible("text=Waiting for the first event")
    assert page.is_visible("text=No alarm.")
    assert axe(page) == []
    first, second = page.inner_text("#example").split("\n\n")
    for command in (first, second):
        assert (
            subprocess.run(["sh", "-c", command], capture_output=True, check=True).returncode == 0
        )
    wait_for(page, "#events", "1")
    wait_for(page, "#labels", "1")
    assert service.get("new", "stats")["labels"] == 1
    assert not page.is_visible("text=Waiting for the first event")


def test_every_number_is_the_apis(service, stream, open_page):
    page = open_page(f"{service.url}/models/numbers")
    service.post("numbers", "predict-then-learn", stream.take(130))
    service.post("numbers", "predict", {"instances": stream.take(7)["instances"]})
    stats = service.get("numbers", "stats")
    points = service.get("numbers", "history")["points"]
    wait_for(page, "#events", "137")
    wait_for(page, "#labels", "130")
    window = stats["window"]
    ids = {
        "events": 137, "labels": 130, "mistakes": stats["mistakes"], "rate-so-far": stats["mistakes"] / 130,
        "pending": 7, "expired": 0, "bound": stats["bound"],
        "window-mistakes": window["mistakes"], "window-labels": 130,
    }  # fmt: skip
    assert {name: value(page, f"#{name}") for name in ids} == ids
    assert text(page, "#rate-so-far") == share(stats["mistakes"] / 130)
    assert value(page, "#best-mistakes") == min(stats["expert_mistakes"].values())

    page.check("#all-experts")
    page.wait_for_function(
        "n => document.querySelectorAll('#trust-rows tr').length === n", arg=len(stats["experts"])
    )
    trusted = {name: cells for name, *cells in table(page, "#trust-rows")}
    assert trusted == {
        name: [
            share(weight),
            str(stats["expert_mistakes"][name]),
            share(stats["expert_mistakes"][name] / 130),
        ]
        for name, weight in stats["weights"].items()
    }
    balance = [
        [label, str(stats["predicted"][label]), str(stats["labelled"][label])]
        for label in stats["predicted"]
    ]
    assert table(page, "#balance-rows") == balance
    assert table(page, "#calibration-rows") == [
        [
            f"{share(bin['from'])} to {share(bin['to'])}",
            str(bin["count"]),
            share(bin["confidence"]),
            share(bin["right"]),
        ]
        for bin in stats["calibration"]
    ]

    page.click("#so-far summary")
    page.wait_for_selector("#so-far tbody tr")
    rows = table(page, "#so-far tbody")
    head = page.eval_on_selector_all(
        "#so-far thead th", "cells => cells.map(cell => cell.textContent)"
    )
    assert [row[0] for row in rows] == [
        str(n) for n in sorted({p["labels"] for p in points} | {130}, reverse=True)
    ]
    assert rows[0][head.index("this model")] == share(stats["mistakes"] / 130)
    assert rows[0][head.index("guarantee: at most")] == share(stats["bound"] / 130)
    experts = [name for name in head if name in stats["experts"]]
    assert len(experts) == 5
    assert [rows[0][head.index(name)] for name in experts] == [
        share(stats["expert_mistakes"][name] / 130) for name in experts
    ]
    old = points[0]
    assert rows[-1][head.index("this model")] == share(old["mistakes"] / old["labels"])


def test_the_list_of_models_has_the_same_numbers(service, stream, open_page):
    page = open_page(service.url)
    page.wait_for_selector("#rows tr")
    rows = {row[0]: row[1:] for row in table(page, "#rows")}
    assert list(rows) == ["alarmed", "explained", "late", "listed", "new", "numbers", "seen"]
    service.post("listed", "predict-then-learn", stream.take(3))
    stats = service.get("listed", "stats")
    wait_for(page, "#rows tr[data-name=listed] .events data", str(stats["events"]))
    wait_for(
        page,
        "#rows tr[data-name=listed] .mistakes data",
        f"{stats['mistakes']} ({share(stats['mistakes'] / stats['labels'])})",
    )
    recent = stats["window"]
    wait_for(
        page,
        "#rows tr[data-name=listed] .window data",
        f"{recent['mistakes']} ({share(recent['mistakes'] / recent['labels'])})",
    )
    page.click("a:text-is('listed')")
    page.wait_for_url("**/models/listed")
    wait_for(page, "#events", str(stats["events"]))


def test_charts_move_and_late_labels_are_filled_in(service, stream, open_page):
    page = open_page(f"{service.url}/models/late")
    service.post("late", "predict-then-learn", stream.take(60))
    wait_for(page, "#labels", "60")
    shifts = service.get("late", "stats")["shifts"]
    assert page.inner_text("#shift-rows tr th") == max(shifts, key=lambda name: shifts[name][0])
    charts = ["so-far", "windowed", "weights", "discrepancy", "calibration", "rate", "latency"]
    before = {name: drawn(page, name) for name in charts}
    given = stream.take(2)
    service.post(
        "late", "predict", {"instances": given["instances"], "ids": ["comes-late", "never-comes"]}
    )
    row = "#latest-rows tr:has(td.id:text-is('comes-late'))"
    page.wait_for_selector(f"{row} .outcome:text-is('pending')")
    assert page.inner_text(f"{row} .label") == NONE
    service.post("late", "predict-then-learn", stream.take(10))
    service.post("late", "label", {"labels": [{"id": "comes-late", "label": given["labels"][0]}]})
    wait_for(page, "#labels", "71")
    event = next(
        one for one in service.get("late", "latest?n=20")["events"] if one["id"] == "comes-late"
    )
    assert page.inner_text(f"{row} .label") == str(given["labels"][0])
    assert page.inner_text(f"{row} .outcome") == ("✓ right" if event["correct"] else "✗ wrong")
    assert page.inner_text(f"{row} .probability") == share(event["probability"])
    assert (
        page.inner_text("#latest-rows tr:has(td.id:text-is('never-comes')) .outcome") == "pending"
    )
    after = {name: drawn(page, name) for name in charts}
    assert [name for name in charts if after[name] == before[name]] == []


def test_an_alarm_is_shown_with_its_rule_and_goes_again(service, stream, open_page):
    page = open_page(f"{service.url}/models/alarmed")
    service.post("alarmed", "predict-then-learn", stream.take(30))
    wait_for(page, "#labels", "30")
    assert page.get_attribute("#alarms", "data-count") == "0"
    answers = service.post("alarmed", "predict", {"instances": stream.take(260)["instances"]})[
        "predictions"
    ]
    page.wait_for_selector("li[data-rule=label-starvation]")
    (alarm,) = service.get("alarmed", "alarms")["alarms"]
    assert text(page, "li[data-rule=label-starvation] strong") == alarm["title"]
    assert text(page, "li[data-rule=label-starvation] p") == alarm["text"]
    assert alarm["title"] in page.text_content("#summary")
    service.post("alarmed", "label", {"labels": [{"id": answers[0]["id"], "label": 1}]})
    page.wait_for_selector("text=No alarm.")
    assert "no alarm" in page.text_content("#summary")


def test_what_each_column_added_is_shown_of_an_event_and_of_an_instance_that_is_typed(
    service, stream, open_page, watch
):
    page = open_page(f"{service.url}/models/explained")
    given = stream.take(25)["instances"]
    service.post("explained", "predict", {"instances": given})
    names = service.get("explained", "stats")["feature_names"]
    wait_for(page, "#events", "25")
    assert axe(page) == []
    page.focus("#latest-rows tr:nth-child(3) button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#explain-rows tr")
    typed = page.evaluate("JSON.parse(document.querySelector('#instance').value)")
    assert typed == dict(zip(names, given[-3], strict=True))
    parts = service.post("explained", "explain", {"instance": given[-3]})
    assert contributions(page) == pytest.approx(largest(parts))
    assert text(page, "#explain-result").startswith(f"{parts['what']}: ")
    assert "mean row of the sources" in text(page, "#explain-result")
    lowering = [amount < 0 for amount in contributions(page).values()]
    assert page.eval_on_selector_all(
        "#explain-rows .bar", "bars => bars.map(bar => bar.classList.contains('labelled'))"
    ) == lowering  # fmt: skip
    first = page.eval_on_selector("#explain-rows tr", "row => row.cells[1].firstChild.value")
    assert float(first) == given[-3][names.index(next(iter(parts["columns"])))]

    page.fill("#instance", str(given[0]))
    page.fill("#reference", str(given[1]))
    page.press("#reference", "Tab")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#explain-result').textContent.includes('the reference')"
    )
    parts = service.post("explained", "explain", {"instance": given[0], "reference": given[1]})
    assert contributions(page) == pytest.approx(largest(parts))
    assert axe(page) == []

    page.fill("#reference", "[1,")
    page.click("#explain-form button")
    page.wait_for_selector("#explain-result:has-text('Reference as JSON')")
    assert page.locator("#explain-rows tr").count() == 0
    watch.expected = "422"
    page.fill("#reference", "[1]")
    page.click("#explain-form button")
    page.wait_for_selector("#explain-result:has-text('the model has 64 features')")


def contributions(page):
    read = "row => [row.cells[0].textContent, Number(row.cells[2].firstChild.value)]"
    return dict(page.eval_on_selector("#explain-rows", f"body => [...body.rows].map({read})"))


def largest(parts):
    """The fifteen largest columns, the others together, and the interactions."""
    order = sorted(parts["columns"].items(), key=lambda one: -abs(one[1]))
    rest = {f"{len(order) - 15} more columns": sum(amount for _, amount in order[15:])}
    return dict(order[:15]) | rest | {"interactions": parts["interactions"]}
