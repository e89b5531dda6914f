"""Metrics of streaming queries: from the offsets in their progress, and for Prometheus."""

import json
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from kohort.spark.metrics import QueryMetrics, register, source_metrics
from kohort.types import TopicPartition
from spark.servers import kohort_only
from spark.streams import Stream, wait_for

PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1"
GROUP = {"group_id": "etl", "generation": 4, "rebalances": 3, "losses": 1}


def source(end, latest, description=PYTHON):
    def text(offset):
        return None if offset is None else json.dumps(offset)

    return SimpleNamespace(description=description, endOffset=text(end), latestOffset=text(latest))


def progress(*sources, rows=0, run="run"):
    return SimpleNamespace(
        runId=run, id="id", name="orders", numInputRows=rows, sources=sources,
        durationMs={"triggerExecution": 1500},
    )  # fmt: skip


def lag(**partitions):
    return {TopicPartition("a", int(name[1:])): behind for name, behind in partitions.items()}


def test_lag_is_that_of_the_partitions_whose_ends_are_reported():
    end = {"@begin": {"a": {"0": 4}}, "a": {"0": 10, "1": 20, "2": 7}}
    latest = {"@group": GROUP, "a": {"0": 15, "1": 20, "3": 9}}
    (found,) = source_metrics(progress(source(end, latest)))
    assert found.lag == lag(p0=5, p1=0)
    assert (found.min_offsets_behind_latest, found.max_offsets_behind_latest) == (0, 5)
    assert found.avg_offsets_behind_latest == 2.5
    assert found.membership is not None
    assert (found.membership.group_id, found.membership.generation) == ("etl", 4)
    assert (found.membership.rebalances, found.membership.losses) == (3, 1)


def test_a_source_that_reports_nothing_has_no_lag():
    (found,) = source_metrics(progress(source({"a": {"0": 1}}, None)))
    assert (found.lag, found.membership) == ({}, None)
    assert found.max_offsets_behind_latest == found.avg_offsets_behind_latest == 0


def test_sources_of_others_are_passed_over():
    assert source_metrics(progress(source({}, {}, "KafkaV2[Subscribe[orders]]"))) == []


def test_series_of_a_query_end_with_it():
    metrics, registry = QueryMetrics(), CollectorRegistry()
    registry.register(metrics)
    metrics.onQueryStarted(SimpleNamespace(runId="run", id="id", name=None))
    found = source({"a": {"0": 10}}, {"@group": GROUP, "a": {"0": 12}})
    for rows in (7, 0, 5):
        metrics.onQueryProgress(SimpleNamespace(progress=progress(found, rows=rows)))

    def value(name, **labels):
        return registry.get_sample_value(f"kohort_spark_{name}", {"query": "id"} | labels)

    of_source = {"source": "0", "group": "etl"}
    assert value("lag", topic="a", partition="0", **of_source) == 2
    assert value("partitions", **of_source) == 1
    assert value("generation", **of_source) == 4
    assert value("rebalances_total", **of_source) == 3
    assert value("losses_total", **of_source) == 1
    assert value("records_total") == 12
    assert value("micro_batches_total") == 2
    assert value("micro_batch_seconds_total") == 3.0
    metrics.onQueryTerminated(SimpleNamespace(runId="run"))
    assert value("records_total") is None


@kohort_only
@pytest.mark.clients
def test_spark_tells_of_a_member(session, topics, tmp_path):
    topics.create("measured", 2)
    topics.fill("measured", {0: [b"v"] * 10, 1: [b"v"] * 4})
    registry = CollectorRegistry()
    metrics = register(session, registry=registry)
    reading = Stream(
        session, topics.address, tmp_path, subscribe="measured", group__id="measured",
        startingOffsets="earliest", maxOffsetsPerTrigger="7",
    )  # fmt: skip
    query = reading.start(processingTime="1 hour")
    try:
        labels = {"query": str(query.id), "source": "0", "group": "measured"}

        def value(name, **more):
            return registry.get_sample_value(f"kohort_spark_{name}", labels | more)

        wait_for(lambda: value("lag", topic="measured", partition="0") == 5, "told", query)
        assert value("lag", topic="measured", partition="1") == 2
        assert value("generation") == value("rebalances_total") == 1
    finally:
        query.stop()
        session.streams.removeListener(metrics)
    (found,) = source_metrics(query.recentProgress[0])
    assert (found.max_offsets_behind_latest, found.avg_offsets_behind_latest) == (5, 3.5)
