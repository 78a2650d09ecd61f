"""The claims of the paper's theory beside real runs."""

from __future__ import annotations

import pytest

from reproduction.paper import units
from reproduction.theory import CLAIMS, claims_of

PROVED = {name for name, claim in CLAIMS.items() if claim.proved}
pytestmark = pytest.mark.slow


def test_what_is_proved_holds_in_real_runs(data_dir):
    work = units(
        ["bound"], ["dslr"], ["homotl-2", "homotlms", "oddm"], "table", 2, 1, str(data_dir)
    )
    claims = claims_of([made for unit in work for made in unit.rows([0, 1])])
    assert set(zip(claims["method"], claims["variant"], strict=True)) == {
        ("homotl-2", ""), ("homotlms", ""), ("oddm", ""), ("oddm", "vote"), ("oddm", "simplex"), ("oddm", "log-loss"),
    }  # fmt: skip
    assert set(claims["claim"]) >= PROVED
    assert not claims[claims["claim"].isin(PROVED)]["broken"].any()


def test_the_vote_exceeds_the_printed_bound_on_dslr(data_dir):
    """HomOTL-ODDM's own experts, 20 orders of the published split; what is proved for the vote is kept."""
    [vote] = [
        unit
        for unit in units(["bound"], ["dslr"], ["oddm"], "table", 20, 1, str(data_dir))
        if unit.variant == "vote"
    ]
    broken = claims_of(list(vote.rows(range(20)))).groupby("claim")["broken"].sum()
    assert broken["theorem"] > 0
    assert broken["theorem, loss"] == 20  # the experiments' beta is not the Theorem's
    assert broken["hedge"] == 0
    assert broken["vote"] == 0
