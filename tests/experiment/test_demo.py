"""The demonstration says what its data is, and its table and page agree."""

from __future__ import annotations

from pathlib import Path

from hedgerow.cli.demo import demo, table


def test_the_report_says_that_the_domains_are_computed_from_real_digits(tmp_path: Path) -> None:
    result = demo(tmp_path, n_orders=1)
    page = result.report.read_text(encoding="utf-8")
    assert "scanner" not in page
    assert "computed distortion" in page
    found = table(result)
    assert {j for _, j in found.best} == {1, 2}  # the lowest rate of each setting
    for row in found.texts:
        assert all(f">{text}</td>" in page for text in row[:3])
