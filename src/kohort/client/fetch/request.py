"""Sends a Fetch request and reads its response: of a fetch session, or of one partition alone.

From v13 on the request has topic ids (KIP-516). A topic without an id, from a broker before 2.8,
limits the request to v12.
"""

from dataclasses import dataclass
from typing import Any

from kohort.client.cluster import Isolation
from kohort.client.errors import BrokerUnreachableError
from kohort.client.fetch.response import (
    TOPIC_IDS_SINCE,
    VERSIONS,
    FetchResponse,
    PartitionResponse,
    error_code,
    read_fetch_response,
)
from kohort.client.fetch.session import FINAL_EPOCH, NO_SESSION, FetchRequest, RequestedPartition
from kohort.client.net import Connection
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.framing import MalformedError
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Fields that all Fetch requests of a client share; sizes in bytes."""

    isolation: Isolation
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    partition_bytes: int
    check_crcs: bool
    rack: str = ""

    @property
    def is_committed(self) -> bool:
        """Whether records of open and aborted transactions are skipped."""
        return self.isolation == "read_committed"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields as `protocol.building.request` takes them."""
        return {
            "max_wait_ms": self.max_wait_ms,
            "min_bytes": self.min_bytes,
            "max_bytes": self.max_bytes,
            "isolation_level": 1 if self.is_committed else 0,
            "rack_id": self.rack,
        }


async def fetch(
    connection: Connection,
    request: FetchRequest,
    settings: FetchSettings,
    *,
    by_id: bool,
    timeout_ms: int | None = None,
) -> FetchResponse:
    """Send `request` and read its response, which may have error codes.

    `by_id`: all topics of the request and its session have ids. Raises UnsupportedVersionError,
    RequestTimeoutError, and BrokerUnreachableError, also for a response that cannot be decoded.
    """
    min_version, max_version = VERSIONS
    wire = connection.wire_for("fetch", min_version, max_version if by_id else TOPIC_IDS_SINCE - 1)
    fields = settings.fields | request.fields(by_id=wire.version >= TOPIC_IDS_SINCE)
    frame = await connection.submit(wire, wire.body(fields), timeout_ms=timeout_ms)
    try:
        response = read_fetch_response(frame, wire.version, wire.body_offset(frame))
    except MalformedError as error:
        raise connection.fail(
            BrokerUnreachableError(f"a Fetch response that cannot be decoded: {error}")
        ) from None
    if response.throttle_ms > 0:
        connection.throttle(response.throttle_ms / 1000)
    return response


async def fetch_partition(
    connection: Connection,
    tp: TopicPartition,
    requested: RequestedPartition,
    settings: FetchSettings,
) -> PartitionResponse:
    """Fetch one partition without a session; the result may have an error code.

    Raises as `fetch`, and KafkaError for a top-level error of the response.
    """
    request = FetchRequest(NO_SESSION, FINAL_EPOCH, {tp: requested}, {})
    response = await fetch(connection, request, settings, by_id=requested.topic_id is not None)
    if response.error or len(response.partitions) != 1:
        code = response.error or ErrorCode.unknown_server_error
        raise KafkaError(error_code(code), f"fetch of {tp}")
    return response.partitions[0]
