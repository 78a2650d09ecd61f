"""One learner a site on Spark: files of rows and labels in, predictions out, and the mistakes of every site.

pip install 'hedgerow[spark]', and a Java runtime (apt-get install openjdk-17-jre-headless); nothing else.
"""

import json
import tempfile
from pathlib import Path

from hedgerow import load, split
from hedgerow.fleet import Base
from hedgerow.spark import Columns, learn_stream, metrics, session

domains = load("digits")
_, target = split(
    domains["shifted"], warmup=0.3, seed=0
)  # shuffles; seed=None keeps an order in time
base = Base.fit(
    [domain for name, domain in domains.items() if name != "shifted"], method="hedgerow-linear"
)

with tempfile.TemporaryDirectory() as folder:
    for batch in range(3):  # each site sees rows of its own; a label comes after its row
        rows, labels = [], []
        for i in range(60 * batch, 60 * batch + 60):
            about = {"site": f"site {i % 3}", "id": f"row {i}"}
            rows.append(json.dumps({**about, "time": 2 * i, "x": target.X[i].tolist()}))
            labels.append(json.dumps({**about, "time": 2 * i + 1, "label": int(target.y[i])}))
        for name, lines in (("rows", rows), ("labels", labels)):
            path = Path(folder, name, f"{batch}.json")
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(lines), encoding="utf-8")

    spark = session(
        "local[2]", config={"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    )
    read = spark.readStream
    results = learn_stream(
        read.schema("site string, id string, time bigint, x array<double>").json(f"{folder}/rows"),
        read.schema("site string, id string, time bigint, label bigint").json(f"{folder}/labels"),
        base,
        Columns(key="site", order="time", features="x"),
    )
    writer = results.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(
        availableNow=True
    )
    writer.format("parquet").option("path", f"{folder}/results").start().awaitTermination()
    for row in metrics(spark.read.parquet(f"{folder}/results")).orderBy("key").collect():
        print(
            f"{row.key}: {row.predictions} predictions, {row.learned} labels, {row.mistakes} mistakes"
        )
    spark.stop()
