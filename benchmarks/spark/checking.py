"""Whether a stream of keys ended as a plain loop does: each label once, the same bytes a key."""

from __future__ import annotations

import numpy as np

from hedgerow.spark import session, states_of
from spark.events import plain_loop
from spark.job import CONFIG

STEP_BY_STEP = 50  # keys whose rows are learned one by one too


def check(events, base, folder):
    """Counts, and `exact`: whether all is as it must be."""
    learned, answers, counts = plain_loop(events)
    spark = session("local[2]", config=CONFIG)
    results = spark.read.parquet(str(folder / "out"))
    results.createOrReplaceTempView("results")

    def one(query):
        return spark.sql(query).collect()[0][0]

    kinds = {row[0]: row[1] for row in spark.sql("SELECT status, count(*) FROM results GROUP BY 1").collect()}
    rows = spark.sql("SELECT id, label FROM results WHERE status = 'learned'").collect()
    told = {int(row.id[1:]): row.label for row in rows}
    states = {int(row.key[1:]): bytes(row.state) for row in states_of(spark, str(folder / "checkpoint")).collect()}
    found = {
        "predictions": one("SELECT count(*) FROM results WHERE kind = 'prediction'"),
        "predicted ids": one("SELECT count(DISTINCT id) FROM results WHERE kind = 'prediction'"),
        "dead letters": one("SELECT count(*) FROM results WHERE kind = 'dead letter'"),
        "labels learned": len(rows),
        "lost": len(set(answers) - set(told)),
        "doubled": len(rows) - len(told),
        "statuses": {name: kinds.get(name, 0) for name in sorted(counts)},
    }
    spark.stop()
    equal = sum(states.get(key) == _state(events, base, learned[key], answers, False) for key in learned)
    some = sorted(learned)[:: max(1, len(learned) // STEP_BY_STEP)]
    stepped = sum(states.get(key) == _state(events, base, learned[key], answers, True) for key in some)
    found |= {"states": len(states), "states equal": equal, "of these one by one": f"{stepped} of {len(some)}"}
    found["exact"] = (
        found["predictions"] == found["predicted ids"] == len(events)
        and told == answers
        and found["doubled"] == found["dead letters"] == 0
        and found["statuses"] == {name: counts[name] for name in sorted(counts)}
        and equal == len(states) == len(learned)
        and stepped == len(some)
    )
    return found


def _state(events, base, places, answers, one_by_one):
    """The state of a key that learns these events; of one that learns nothing, Spark has no bytes."""
    if not places:
        return b""
    member = base.member()
    y = np.array([answers[place] for place in places])
    for part in np.array_split(np.arange(len(y)), len(y) if one_by_one else 1):
        member.learn(events.X[places][part], y[part])
    return member.to_bytes()
