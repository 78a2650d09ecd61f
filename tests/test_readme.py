"""What the README says is so: its first lines, its parameters, its methods, its links (its code: test_docs_code.py)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from hedgerow import OnlineTransferClassifier
from hedgerow.methods import RECIPES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_commands_are_the_two_doors():
    assert re.findall(r"^make \w+", README, flags=re.M)[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert "\ndemo:" in makefile
    assert "\ntest:" in makefile


def test_the_five_lines_are_the_first_python():
    assert (
        "OnlineTransferClassifier().fit_domains(sources, warmup)" in re.search(r"```python\n(.*?)```", README, re.S)[1]
    )


def test_the_parameters_are_those_of_the_classifier():
    listed = re.search(r"The classifier has (\d+) parameters: ([\w\s,]+)\.", README)
    names = inspect.signature(OnlineTransferClassifier).parameters
    assert re.split(r",\s+", listed[2]) == list(names)
    assert int(listed[1]) == len(names)


def test_every_method_is_in_the_table():
    assert set(re.findall(r"^\| `([\w-]+)` \|", README, flags=re.M)) == set(RECIPES)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).is_file()


SHOWING_SPLIT = ["README.md", "docs/streams.md", "docs/paper.md", "examples/quickstart.py", "examples/own_method.py"]


@pytest.mark.parametrize("name", SHOWING_SPLIT)
def test_wherever_split_is_shown_it_is_said_that_it_shuffles(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "split" in text
    assert "shuffle" in text
    assert "seed=None" in text
