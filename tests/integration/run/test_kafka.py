"""Rows from Kafka, by the protocol: a mock cluster of librdkafka listens on real ports."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from support.streams import NAMES, hedgerow, rows, start, state

from hedgerow import OnlineTransferClassifier
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.run import brokers
from hedgerow.run.brokers import KafkaSource
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="no confluent-kafka: pip install 'hedgerow[brokers]'"
)


@pytest.fixture(scope="module")
def producer():
    made = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock:1"})
    made.list_topics(timeout=10)
    yield made
    made.flush(5)


@pytest.fixture(scope="module")
def address(producer):
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    return f"{broker.host}:{broker.port}"


def send(producer, first, n):
    X, y = rows(4, first + n, 0.8)
    for i in range(first, first + n):
        row = {"id": f"r{i}", "y": y[i], **dict(zip(NAMES, X[i].tolist(), strict=True))}
        producer.produce("rows", json.dumps(row).encode())
    producer.flush(10)


def command(folder, address):
    return [
        "run", "-m", folder / "model.safetensors", "-i", f"kafka://{address}/rows", "-o", folder / "kafka.jsonl",
        "--id", "id", "--label", "y", "--journal", folder / "kafka",
    ]  # fmt: skip


def until(folder, process, count):
    path = folder / "kafka.jsonl"
    end = time.monotonic() + 60
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_offsets_are_the_journals(producer, address, folder):
    send(producer, 0, 300)
    process = start(*command(folder, address))
    until(folder, process, 300)
    os.kill(process.pid, signal.SIGKILL)  # whatever the group was told: the journal knows
    process.communicate()
    send(producer, 300, 200)
    process = start(*command(folder, address))
    until(folder, process, 500)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    ids = [json.loads(line)["id"] for line in (folder / "kafka.jsonl").read_text().splitlines()]
    assert sorted(ids) == sorted(f"r{i}" for i in range(500))
    assert state(folder / "kafka")[1]["labels"] == 500


def test_a_topic_that_cannot_be_is_refused(folder):
    arguments = [
        "run",
        "-m",
        folder / "model.safetensors",
        "-i",
        "kafka://127.0.0.1",
        "-o",
        folder / "x.jsonl",
    ]
    done = hedgerow(*arguments, "--journal", folder / "kafka-none")
    assert (done.returncode, "kafka://HOST" in done.stderr) == (2, True), done.stderr


def source(folder, url, kept=None, said=None):
    clf = OnlineTransferClassifier.load(folder / "model.safetensors")
    job = Job(folder / "model.safetensors", url, "-", "y", id="id", journal=folder / "none")
    return KafkaSource(job, clf, Interrupts(), kept, (said if said is not None else []).append)


def test_offsets_that_the_broker_does_not_have_any_more_are_an_error(producer, address, folder):
    """They would else be passed over without a word."""
    producer.produce("short", b"{}")
    producer.flush(10)
    feed = source(folder, f"kafka://{address}/short", b'{"kafka": {"0": 99999}}')
    try:
        with pytest.raises(HedgerowError, match=r"OFFSET_RESET|OFFSET_OUT_OF_RANGE"):
            next(iter(feed))
    finally:
        feed.close()


def test_partitions_that_are_added_later_are_read(producer, address, folder, monkeypatch):
    monkeypatch.setattr(brokers, "PARTITIONS", 0.0)
    partition = confluent_kafka.TopicPartition
    said = []
    producer.produce("grows", b"{}", partition=0)
    producer.flush(10)
    feed = source(folder, f"kafka://{address}/grows", said=said)
    try:
        feed._assigned = {0}  # as if the topic had had one partition until now
        feed._consumer.assign([partition("grows", 0, confluent_kafka.OFFSET_BEGINNING)])
        producer.produce("grows", b"{}", partition=1)
        producer.flush(10)
        blocks = iter(feed)
        read = [bad.reason for block in (next(blocks), next(blocks)) for bad in block.bad]
        assert sorted(reason.partition(":0:")[0] for reason in read) == ["message 0", "message 1"]
        assert "new partitions are read: 1" in said[0]
    finally:
        feed.close()


def test_properties_of_the_url_are_those_of_the_client(address, folder):
    source(folder, f"kafka://{address}/rows?client.id=me&security.protocol=plaintext").close()
    for query, words in (
        ("no.such.property=1", "no.such.property"),
        ("group.id=mine", "group.id is set by the run"),
        (
            "security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN&sasl.username=u&sasl.password=s3cret",
            "no broker answers",
        ),
    ):
        with pytest.raises(InputError, match=words) as caught:
            source(folder, f"kafka://{address}/rows?{query}")
        assert "s3cret" not in str(caught.value)


def test_errors_that_pass_are_said_and_others_end_the_run(address, folder):
    said = []
    feed = source(folder, f"kafka://{address}/rows", said=said)
    try:
        for code in (
            confluent_kafka.KafkaError._ALL_BROKERS_DOWN,
            confluent_kafka.KafkaError._ALL_BROKERS_DOWN,
        ):
            feed._told(confluent_kafka.KafkaError(code))
        feed._refuse(feed._problem)
        assert len(said) == 1
        feed._told(confluent_kafka.KafkaError(confluent_kafka.KafkaError._AUTHENTICATION))
        with pytest.raises(HedgerowError, match="_AUTHENTICATION"):
            next(iter(feed))
    finally:
        feed.close()
