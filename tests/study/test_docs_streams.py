"""docs/streams.md: a section a study. That its Python runs is in tests/test_docs_code.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hedgerow.study.studies import STUDIES

PAGE = (Path(__file__).parents[2] / "docs" / "streams.md").read_text(encoding="utf-8")
_, *SECTIONS = re.split(r"^## ", PAGE, flags=re.M)


def test_there_is_a_section_for_every_study_and_no_other():
    assert [section.split("\n")[0] for section in SECTIONS] == list(STUDIES)


@pytest.mark.parametrize("section", SECTIONS, ids=list(STUDIES))
def test_a_section_says_how_to_run_it_and_where_it_loses(section):
    name = section.split("\n")[0]
    assert f"`hedgerow study {name}`" in section
    assert "Where it loses:" in section
