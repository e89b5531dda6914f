"""DescribeLogDirs (35) v1-5: sizes of logs, and of the volume that has them (KIP-113, KIP-827).

v3 has an error of the whole response, v4 the bytes of the volume, v5 whether the directory is
cordoned. There is one directory. Storage in memory has no volume: its sizes are -1, as for brokers
that do not know them.
"""

import shutil
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.log.remote_log import RemoteLog
from kohort.server.config import in_postgres, storage_without_secrets
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import refuse
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeLogDirsRequest

UNKNOWN_BYTES: Final = -1
IN_MEMORY: Final = "memory"
"""Name of the directory of a server that stores nothing on disk."""


def handle(
    services: Services, exchange: Exchange, request: "DescribeLogDirsRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        refuse(exchange)
        return None
    return respond_in_chunks(services, exchange, _steps(services, request))


def _steps(services: Services, request: "DescribeLogDirsRequest") -> Steps:
    sizes: dict[str, dict[int, int]] = {}
    for name, index in _requested_partitions(services, request.topics):
        log = services.topics.log(name, index)
        if log is not None and not isinstance(log, RemoteLog):
            sizes.setdefault(name, {})[index] = log.size
        yield
    topics = []
    for name, partitions in sizes.items():
        topics.append({"name": name, "partitions": _partitions(partitions)})
        yield
    return {"results": [_directory(services) | {"topics": topics}]}


def _requested_partitions(
    services: Services, topics: Iterable[Any] | None
) -> Iterator[tuple[str, int]]:
    """The partitions that are asked for, some of which may not exist; None: all."""
    if topics is None:
        for topic in tuple(services.topics.all()):
            yield from ((topic.name, index) for index in range(len(topic.partitions)))
    else:
        for topic in topics:
            yield from ((topic.topic, index) for index in topic.partitions)


def _partitions(sizes: dict[int, int]) -> list[dict[str, Any]]:
    return [
        {"partition_index": index, "partition_size": size, "offset_lag": 0}
        for index, size in sizes.items()
    ]


def _directory(services: Services) -> dict[str, Any]:
    storage = services.config["storage"]
    if storage != "local":
        return {
            "error_code": ErrorCode.none,
            "log_dir": storage_without_secrets(storage) if in_postgres(storage) else IN_MEMORY,
            "total_bytes": UNKNOWN_BYTES,
            "usable_bytes": UNKNOWN_BYTES,
        }
    path = Path(services.config["log.dir"]).absolute()
    try:
        volume = shutil.disk_usage(path)
    except OSError:
        return {"error_code": ErrorCode.kafka_storage_error, "log_dir": str(path)}
    return {
        "error_code": ErrorCode.none,
        "log_dir": str(path),
        "total_bytes": volume.total,
        "usable_bytes": volume.free,
    }
