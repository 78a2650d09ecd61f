"""A real Spark on this machine."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from support.spark_streams import base

__all__ = ["base", "spark"]

NO_JAVA = "no Java: apt-get install openjdk-17-jre-headless"


@pytest.fixture(scope="session")
def spark():
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(NO_JAVA)
    from hedgerow.spark import session

    quiet = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }
    before = signal.getsignal(signal.SIGINT)
    made = session("local[2]", config={**quiet, "spark.driver.host": "127.0.0.1"})
    signal.signal(signal.SIGINT, before)  # Spark takes Ctrl-C for itself
    yield made
    made.stop()
