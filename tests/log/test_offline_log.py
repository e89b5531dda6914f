"""Logs that are not served: their operations raise the reason, and their state can be read."""

import inspect
from asyncio import iscoroutine, run

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import Log, LogConfig
from kohort.log.offline_log import UNKNOWN, OfflineLog
from kohort.log.remote_log import RemoteLog

from .conftest import NOW, ORDERS

WITHOUT_EFFECT = {
    "close", "compact", "configure", "loaded", "on_append", "owner_sync_failed", "owner_synced",
    "retain", "sync_failed", "sync_resumed", "unsynced",
}  # fmt: skip
OPERATIONS = sorted(
    name
    for name, member in inspect.getmembers(Log, inspect.isfunction)
    if not name.startswith("_") and name not in WITHOUT_EFFECT
)


def offline():
    return OfflineLog(ORDERS, LogConfig(), KafkaError(ErrorCode.kafka_storage_error, "damaged"))


def remote():
    return RemoteLog(ORDERS, LogConfig())


def call(log, name):
    """Call a method with the parameters of the interface."""
    _, *parameters = inspect.signature(getattr(Log, name)).parameters.values()
    given = [None for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    named = {
        parameter.name: None for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
    }
    result = getattr(log, name)(*given, **named)
    return run(result) if iscoroutine(result) else result


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("log", "code"),
    [
        (offline(), ErrorCode.kafka_storage_error),
        (remote(), ErrorCode.not_leader_or_follower),
    ],
    ids=["offline", "remote"],
)
def test_operation_raises_why_the_log_is_not_served(log, code, name):
    with pytest.raises(KafkaError) as refused:
        call(log, name)
    assert refused.value.code is code


@pytest.mark.parametrize("log", [offline(), remote()], ids=["offline", "remote"])
def test_durable_raises_only_where_it_is_awaited(log):
    waiting = log.durable()
    with pytest.raises(KafkaError):
        run(waiting)


@pytest.mark.parametrize("log", [offline(), remote()], ids=["offline", "remote"])
def test_deleted_log_raises_unknown_topic_or_partition(log):
    log.end(ErrorCode.unknown_topic_or_partition)
    with pytest.raises(KafkaError) as refused:
        log.append(b"", NOW)
    assert refused.value.code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("make", [offline, remote])
def test_log_that_is_not_served_has_unknown_offsets_and_no_bytes(make):
    log = make()
    log.configure(config := LogConfig(segment_bytes=1_000))
    assert log.config is config
    assert (log.start_offset, log.end_offset, log.high_watermark) == (UNKNOWN,) * 3
    assert (log.last_stable_offset, log.leader_epoch, log.size) == (UNKNOWN, UNKNOWN, 0)
    assert run(log.retain(NOW)) == 0
    assert not run(log.compact(NOW))
    assert log.unsynced() == []
