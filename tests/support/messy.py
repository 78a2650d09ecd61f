"""Tables as people have them: an id, a date, a category, gaps, yes and no, a note."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pandas as pd

CITIES = ("Oslo", "Bergen", "Bodø")


def messy(rows: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Label `bought` depends on age, income, city and vip; `shift` is how this domain differs."""
    rng = np.random.default_rng(seed)
    age = rng.normal(40 + shift, 10, rows)
    income = rng.normal(3000 + 50 * shift, 800, rows)
    city = rng.choice(CITIES, rows)
    vip = rng.random(rows) < 0.3
    score = (
        (age - 40 - shift) / 10
        + (income - 3000 - 50 * shift) / 800
        + 2 * (city == "Oslo")
        + vip
        - 1
    )
    when = [datetime(2024, 1, 1) + timedelta(hours=int(h)) for h in rng.integers(0, 8000, rows)]
    table = pd.DataFrame(
        {
            "customer_id": [f"C{seed}-{i:05d}" for i in range(rows)],
            "when": [moment.isoformat() for moment in when],
            "city": city,
            "age": np.where(rng.random(rows) < 0.15, np.nan, age.round(1)),
            "income": np.where(rng.random(rows) < 0.1, np.nan, income.round()),
            "vip": np.where(vip, "yes", "no"),
            "note": [f"called about order {i}, will call again" for i in range(rows)],
            "country": "NO",
            "bought": np.where(score + rng.normal(0, 0.3, rows) > 0, "yes", "no"),
        }
    )
    return table.astype({"city": object})
