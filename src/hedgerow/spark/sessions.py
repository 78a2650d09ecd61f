"""A session of Spark that has what streams of keys need."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hedgerow.core.errors import HedgerowError, InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONFIG = {
    PROVIDER: ROCKSDB,
    # a batch writes what it changed, not every key's state
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
JAVA = "apt-get install openjdk-17-jre-headless"


def session(master: str | None = None, name: str = "hedgerow", config: dict[str, str] | None = None) -> SparkSession:
    """A session with RocksDB for states, whose Python workers run this Python unless PYSPARK_PYTHON names another."""
    from pyspark.sql import SparkSession

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise HedgerowError(f"Spark needs Java 17 or later, and there is none: {JAVA}, or set JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for option, value in {**CONFIG, **(config or {})}.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()


def check_session(spark: SparkSession) -> None:
    """Refuse a session whose store cannot hold these states, before the query starts."""
    found = spark.conf.get(PROVIDER, "")
    if found != ROCKSDB:
        raise InputError(f"{PROVIDER} is {found!r}: states of keys need {ROCKSDB}; hedgerow.spark.session() sets it")


@contextmanager
def quiet_about_pandas() -> Iterator[None]:
    """Spark 4.3 warns of pandas 3 at every use; what is used here is tested with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield
