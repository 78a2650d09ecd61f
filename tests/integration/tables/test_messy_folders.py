"""Folders of three sites as analysts get them, from the files up: what is said, what stops, and what mends it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.command import COMMAND, environment

from hedgerow import load_model

SITES = ("lyon8", "madrid", "vienna")
Written = Callable[[Path, int], None]


def hedgerow(*words: object) -> subprocess.CompletedProcess[str]:
    done = [*COMMAND, *map(str, words)]
    env = environment(COLUMNS="300")
    return subprocess.run(done, capture_output=True, text=True, timeout=300, env=env)


def orders(seed: int, n: int = 200, rare: float = 0.4) -> pd.DataFrame:
    """`bought` follows from the amount, the age and the channel; a customer comes again."""
    rng = np.random.default_rng(seed)
    bought = rng.random(n) < rare
    amount = rng.normal(50 + 12 * bought, 9, n).round(2)
    return pd.DataFrame(
        {
            "amount": amount,
            "age": (rng.integers(20, 80, n) + 5 * bought).astype(str),
            "channel": rng.choice(["web", "Geschäft", "téléphone"], n),
            "when": [f"2024-03-{1 + i % 28:02d}" for i in range(n)],
            "bought": np.where(bought, "yes", "no"),
        }
    )


def folder(path: Path, change: Callable[[pd.DataFrame, int], pd.DataFrame], **how: str) -> Path:
    for seed, site in enumerate((*SITES, "new")):
        table = change(orders(seed), seed)
        encoding = how.get(site, "utf-8")
        table.to_csv(path / f"{site}.csv", index=False, encoding=encoding)
    return path


def sources(path: Path) -> list[object]:
    return [word for site in SITES for word in ("--source", path / f"{site}.csv")]


def fit(path: Path, *more: object) -> subprocess.CompletedProcess[str]:
    label = () if "--label" in more else ("--label", "bought")
    model = path / "m.safetensors"
    return hedgerow("fit", *sources(path), *label, "-o", model, *more)


def test_decimal_commas_in_one_of_three_files(tmp_path):
    def commas(table: pd.DataFrame, seed: int) -> pd.DataFrame:
        written = [str(x).replace(".", ",") for x in table["amount"]]
        return table.assign(amount=written) if seed == 2 else table

    path = folder(tmp_path, commas)
    done = fit(path)
    assert done.returncode == 2, done.stdout
    assert "column 'amount' is a number in lyon8, madrid, text in vienna ('" in done.stderr
    assert "pass --decimal ," in done.stderr
    assert not (path / "m.safetensors").exists()
    checked = hedgerow("check", *(path / f"{site}.csv" for site in SITES), "--label", "bought")
    assert checked.returncode == 1
    assert "column 'amount' is a number in lyon8, madrid, text in vienna" in checked.stdout
    mended = fit(path, "--decimal", ",")
    assert mended.returncode == 0, mended.stderr
    assert dict(load_model(path / "m.safetensors").table_.rows())["amount"] == "number"
    for role in ("entity", "drop"):  # the remedies for this column alone
        assert fit(path, "--column", f"{role}=amount").returncode == 0


def test_windows_text_and_a_word_for_a_gap(tmp_path):
    def unknown(table: pd.DataFrame, seed: int) -> pd.DataFrame:
        age = np.where(np.arange(len(table)) % 15 == 3, "unknown", table["age"])
        return table.assign(age=age)

    path = folder(tmp_path, unknown, vienna="cp1252", new="cp1252")
    done = fit(path)
    assert done.returncode == 2
    assert "vienna.csv: is not UTF-8 and read as cp1252 (--encoding says otherwise)" in done.stderr
    assert done.stderr.count("'unknown' is not a number") == 1
    assert "(and 41 more)" in done.stderr  # 14 in each of three files
    assert "--na VALUE takes a value for a gap" in done.stderr
    done = fit(path, "--na", "unknown")
    assert done.returncode == 0, done.stderr
    model = load_model(path / "m.safetensors")
    channels = next(column for column in model.table_.columns if column.name == "channel")
    assert "Geschäft" in channels.values
    assert "téléphone" in channels.values
    # the model remembers what a gap is; a stream has to be told its encoding, and says so once
    run = ("run", "-m", path / "m.safetensors", "--input", path / "new.csv", "--label", "bought")
    done = hedgerow(*run, "--output", path / "a.jsonl")
    assert done.stderr.count("is not UTF-8 text") == 2
    assert "run --setting encoding=cp1252" in done.stderr
    done = hedgerow(*run, "--output", path / "b.jsonl", "--setting", "encoding=cp1252")
    assert done.returncode == 0
    assert "skipped" not in done.stderr
    assert len((path / "b.jsonl").read_text().splitlines()) == 200


def test_labels_of_mixed_kinds_and_labels_that_all_differ(tmp_path):
    def mixed(table: pd.DataFrame, seed: int) -> pd.DataFrame:
        titles = [f"order {seed}-{i}" for i in range(len(table))]
        bought = table["bought"].map({"no": 0, "yes": 1}) if seed == 2 else table["bought"]
        return table.assign(bought=bought, title=titles)

    path = folder(tmp_path, mixed)
    done = fit(path)
    assert done.returncode == 2
    assert "labels are text in lyon8, madrid (such as 'no'" in done.stderr.replace("'yes'", "'no'")
    assert "and numbers in vienna" in done.stderr
    assert "y.map({" in done.stderr
    remedy = ("--relabel", "0=no", "--relabel", "1=yes")
    assert " ".join(remedy[2:]) in done.stderr
    assert fit(path, *remedy).returncode == 0
    assert load_model(path / "m.safetensors").classes_.tolist() == ["no", "yes"]
    run = ("run", "-m", path / "m.safetensors", "--label", "bought", "--output", "-")
    done = hedgerow(*run, "--input", path / "vienna.csv")
    assert done.returncode == 2
    assert "labels are numbers (such as '" in done.stderr
    done = fit(path, *remedy, "--relabel", "2=maybe")
    assert done.returncode == 2
    assert "--relabel 2=..: no file has this label" in done.stderr
    done = fit(path, "--label", "title")
    assert done.returncode == 2
    assert "600 different labels in 600 rows" in done.stderr
    assert "max_classes=1200" in done.stderr


def test_a_leak_an_entity_and_rows_that_repeat(tmp_path):
    def leaked(table: pd.DataFrame, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        code = np.where(table["bought"] == "yes", "C1", rng.choice(["C2", "C3"], len(table)))
        customer = rng.integers(1000, 1040, len(table))
        table = table.assign(closing_code=code, customer_id=customer)
        return pd.concat([table, table.iloc[:7]]) if seed == 0 else table

    path = folder(tmp_path, leaked)
    done = fit(path, "--unlabelled", path / "new.csv")
    assert done.returncode == 0, done.stderr  # said, never a stop
    assert "column 'closing_code' alone separates the classes in every source" in done.stdout
    assert "--column drop=closing_code" in done.stdout
    assert "column 'customer_id' is read as a number and looks like an entity" in done.stdout
    assert "duplicate rows, label included: 7 of 207 in lyon8" in done.stdout
    again = fit(path, "--column", "drop=closing_code", "--column", "entity=customer_id")
    assert again.returncode == 0
    assert "alone separates" not in again.stdout
    assert "looks like an entity" not in again.stdout
    columns = dict(load_model(path / "m.safetensors").table_.rows())
    assert columns["customer_id"] == "category, hashed to 256 places"


def test_dates_of_four_forms_and_a_wrong_file(tmp_path):
    forms = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")

    def dated(table: pd.DataFrame, seed: int) -> pd.DataFrame:
        return table.assign(when=pd.to_datetime(table["when"]).dt.strftime(forms[seed]))

    path = folder(tmp_path, dated)
    done = fit(path, "--unlabelled", path / "new.csv")
    assert done.returncode == 0, done.stderr
    assert "column 'when' has dates in several formats, each table read in its own: " in done.stdout
    for written in ("2024-03-01 in lyon8", "01.03.2024 in madrid", "03/01/2024 in new"):
        assert written in done.stdout
    other = pd.DataFrame({"wage": np.arange(40) * 1.5, "shift": ["early", "late"] * 20})
    other["age"] = 30
    other.to_csv(path / "wages.csv", index=False)
    before = (path / "m.safetensors").read_bytes()
    run = ("run", "-m", path / "m.safetensors", "--output", path / "p.jsonl")
    done = hedgerow(*run, "--input", path / "wages.csv", "--label", "wage", "--save", path / "s.st")
    assert done.returncode == 2
    assert (
        "3 of the model's 4 columns are empty in the first 40 rows (amount, channel, when)"
        in done.stderr
    )
    assert (path / "p.jsonl").read_text() == ""
    renamed = orders(9).rename(columns={"bought": "note"}).assign(wage=np.arange(200) * 1.5)
    renamed.to_csv(path / "renamed.csv", index=False)
    done = hedgerow(*run, "--input", path / "renamed.csv", "--label", "wage")
    assert done.returncode == 2
    assert "200 of the first 200 labels are different classes" in done.stderr
    assert (path / "m.safetensors").read_bytes() == before


def test_a_run_that_goes_on_is_not_checked_again(tmp_path):
    path = folder(tmp_path, lambda table, seed: table)
    assert fit(path).returncode == 0
    table = orders(8)
    table.iloc[:100].to_csv(path / "stream.csv", index=False)
    run = (
        "run", "-m", path / "m.safetensors", "--input", path / "stream.csv", "--label", "bought",
        "--output", path / "p.jsonl", "--journal", path / "live",
    )  # fmt: skip
    assert hedgerow(*run).returncode == 0
    gaps = table.iloc[100:].assign(amount=None, channel=None, when=None)
    pd.concat([table.iloc[:100], gaps]).to_csv(path / "stream.csv", index=False)
    done = hedgerow(*run)
    assert done.returncode == 0, done.stderr
    assert len((path / "p.jsonl").read_text().splitlines()) == 200


def test_one_in_fifty(tmp_path):
    for seed, site in enumerate((*SITES, "new")):
        orders(seed, 600, rare=0.02).to_csv(tmp_path / f"{site}.csv", index=False)
    done = fit(tmp_path, "--unlabelled", tmp_path / "new.csv")
    assert done.returncode == 0, done.stderr
    assert "class 'yes' is rare, " in done.stdout
    assert "look at its average precision" in done.stdout


def test_what_a_fit_says_is_what_inspect_says(tmp_path):
    path = folder(tmp_path, lambda table, seed: table)
    fitted = fit(path, "--unlabelled", path / "new.csv")
    shown = hedgerow("inspect", path / "m.safetensors").stdout
    line = next(line for line in fitted.stdout.splitlines() if line.startswith("lyon8"))
    assert line.split()[-1] in shown  # the discrepancy of the source
    assert "no labels yet" in shown
    assert "columns that matter most" in shown
    model = load_model(path / "m.safetensors")
    assert max(model.feature_importances_, key=model.feature_importances_.get) == "amount"


@pytest.mark.parametrize("more", [(), ("--unlabelled", "new.csv")])
def test_a_check_names_what_a_model_would_miss(tmp_path, more):
    path = folder(tmp_path, lambda table, seed: table)
    assert fit(path).returncode == 0
    orders(5).drop(columns="amount").to_csv(path / "short.csv", index=False)
    words = [path / word if word.endswith(".csv") else word for word in more]
    done = hedgerow(
        "check", path / "short.csv", "--label", "bought", "-m", path / "m.safetensors", *words
    )
    assert done.returncode == 0, done.stderr
    assert "short: no column 'amount', a gap in every row" in done.stdout


def test_frames_are_checked_too():
    from hedgerow import InputError, OnlineTransferClassifier

    a = orders(0)
    b = orders(1)
    b["amount"] = [str(x).replace(".", ",") for x in b["amount"]]
    model = OnlineTransferClassifier()
    with pytest.raises(
        InputError, match=r"'amount' is a number in a, text in b .* replace the commas"
    ):
        model.fit_domains({"a": a, "b": b}, label="bought")
    both = pd.concat([a, b])
    site = ["lyon8"] * len(a) + ["vienna"] * len(b)
    with pytest.raises(InputError, match="text in source vienna"):
        model.fit(both.drop(columns="bought"), both["bought"], sample_domain=site)


def test_the_report_begins_with_the_data(tmp_path):
    path = folder(tmp_path, lambda t, seed: t.assign(closing=np.where(t["bought"] == "yes", 1, 2)))
    done = hedgerow(
        "compare", *sources(path), "--stream", path / "new.csv", "--label", "bought", "--methods",
        "homotlms", "--peers", "none", "--out", path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (path / "out" / "report.md").read_text()
    first = page.split("\n## ")[1]
    assert first.startswith("Your data")
    assert "column 'closing' alone separates the classes" in first
    assert "| the label | 2 classes | no " in first
    row = json.loads((path / "out" / "results.jsonl").read_text().splitlines()[0])
    assert row["found"]["tables"] == [*SITES, "new"]


def test_explain_says_why(tmp_path):
    path = folder(tmp_path, lambda table, seed: table)
    assert fit(path).returncode == 0
    model = load_model(path / "m.safetensors")
    row = orders(3).drop(columns="bought").iloc[2].to_dict()
    own = model.explain_one(row, by_column=True)
    words = ("explain", "-m", path / "m.safetensors", "--row")
    for given in (json.dumps(row), f"{path / 'new.csv'}:3"):
        done = hedgerow(*words, given)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{own.label}, probability")
        assert "log-odds of" in done.stdout
        told = json.loads(hedgerow(*words, given, "--json").stdout)
        assert told["label"] == own.label
        columns = told["contributions"]["columns"]
        assert columns == pytest.approx(own.contributions.columns)
    for given, why in (('{"amount": ', "not JSON"), (f"{path / 'new.csv'}:999", "has 200 rows")):
        done = hedgerow(*words, given)
        assert done.returncode == 2
        assert why in done.stderr
