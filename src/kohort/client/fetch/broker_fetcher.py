"""The requests that go to one broker for one `Fetcher`: one after the other, each for all that is
wanted then.

A request waits at the broker for `fetch_max_wait_ms` if nothing is there, and meanwhile nothing
else can be asked on its connection: a partition that is added, resumed, or read on just then would
stand still for half a second. So there are two lanes, each with its own connection and session. The
second has nothing to do as long as the first has it all; partitions that become ready while the
first waits are the second's.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kohort.client.backoff import Backoff
from kohort.client.cluster import Cluster, Isolation
from kohort.client.errors import (
    UNKNOWN_TOPIC,
    WRONG_LEADER,
    BrokerUnreachableError,
    OffsetOutOfRangeError,
)
from kohort.client.fetch.batch import Batch, scan
from kohort.client.fetch.partition import FetchPartition
from kohort.client.fetch.position_resolver import PositionResolver
from kohort.client.fetch.response import (
    NO_REPLICA,
    VERSIONS,
    FetchResponse,
    PartitionResponse,
    error_code,
    read_fetch_response,
)
from kohort.client.fetch.session import (
    FetchRequest,
    FetchSession,
    RequestedPartition,
    is_session_lost,
    topics_of,
)
from kohort.client.net import Connection, Frame, Wire
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.protocol.framing import MalformedError

log: Final = logging.getLogger(__name__)

CONNECTIONS_PER_BROKER: Final = 2
WITHOUT_TOPIC_IDS: Final = 12
"""The last version that names topics."""
CLOSE_GRACE_S: Final = 0.1
"""How long freeing the broker's memory of a session may take; it would forget it by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How it is fetched; sizes in bytes."""

    isolation: Isolation
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    partition_bytes: int
    check_crcs: bool
    rack: str

    @property
    def fields(self) -> dict[str, Any]:
        """Of every request."""
        level = 1 if self.isolation == "read_committed" else 0
        waits = {
            "max_wait_ms": self.max_wait_ms,
            "min_bytes": self.min_bytes,
            "max_bytes": self.max_bytes,
        }
        return {**waits, "isolation_level": level, "rack_id": self.rack}


class BrokerFetcher:
    """A connection and a session with one broker, and the task that uses them.

    `wanted` gives the partitions to fetch next; they are in flight until their answer was dealt
    with. `wake` is set when there may be some.
    """

    def __init__(
        self,
        cluster: Cluster,
        node_id: int,
        *,
        purpose: str,
        settings: FetchSettings,
        wake: asyncio.Event,
        wanted: Callable[[int], list[FetchPartition]],
        resolver: PositionResolver,
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._purpose = purpose
        self._settings = settings
        self._fields = settings.fields
        self._wake = wake
        self._wanted = wanted
        self._resolver = resolver
        self._session = FetchSession()
        # Of answers that come at once and bring nothing: no broker should give many, and none shall
        # keep us busy.
        self._idle = Backoff(5, 200)
        self._connection: Connection | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End it. The broker is told that the session is over, unless it still works on a request."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        connection, final = self._connection, self._session.final()
        if connection is None or connection.closed or connection.in_flight or final is None:
            return
        try:
            async with asyncio.timeout(CLOSE_GRACE_S):
                await self._ask(connection, final, by_id=True)
        except (TimeoutError, KohortError):
            pass

    async def _run(self) -> None:
        while True:
            claimed = {each: each.claim() for each in self._wanted(self._node_id)}
            if not claimed:
                await self._wake.wait()
                self._wake.clear()
                continue
            pause_s = 0.0
            try:
                pause_s = await self._fetch(claimed)
            except Exception as fault:  # our own: whoever reads is told, rather than left waiting
                log.exception("fetching from broker %s", self._node_id)
                self._session.handle_error()
                for each, serial in claimed.items():
                    if serial == each.serial:
                        each.refuse(fault)
            finally:
                for each, serial in claimed.items():
                    each.release(serial)
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _fetch(self, claimed: Mapping[FetchPartition, int]) -> float:
        """One request and its answer; seconds to wait before the next."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        asked = {each: (serial, self._asked(each)) for each, serial in claimed.items()}
        try:
            response = await self._exchange({each.tp: what for each, (_, what) in asked.items()})
        except KohortError as error:
            self._session.handle_error()
            self._cluster.stale(*topics_of(each.tp for each in claimed))
            for each, (serial, _) in asked.items():
                if serial == each.serial:
                    self._resolver.failed(each, error)
            return 0
        if response.error:
            return self._refused(claimed, response.error)
        brought = self._take_in(asked, response)
        if brought or loop.time() - started > self._settings.max_wait_ms / 2000:
            self._idle.reset()
            return 0
        return self._idle.next_s()

    def _asked(self, partition: FetchPartition) -> RequestedPartition:
        epoch = partition.leader.epoch if partition.leader is not None else -1
        return RequestedPartition(
            partition.topic_id, partition.fetch_offset, epoch, self._settings.partition_bytes
        )

    async def _exchange(self, wanted: dict[Any, RequestedPartition]) -> FetchResponse:
        request = self._session.request(wanted)
        self._connection = connection = await self._cluster.connection(self._node_id, self._purpose)
        how, frame = await self._ask(
            connection, request, by_id=all(each.topic_id for each in wanted.values())
        )
        try:
            response = read_fetch_response(frame, how.version, how.body_at(frame))
        except MalformedError as error:
            raise connection.fail(
                BrokerUnreachableError(f"a fetch answer that cannot be read: {error}")
            ) from None
        if response.throttle_ms > 0:
            connection.throttle(response.throttle_ms / 1000)
        self._session.handle_response(response.error, response.session_id)
        return response

    async def _ask(
        self, connection: Connection, request: FetchRequest, *, by_id: bool
    ) -> tuple[Wire, Frame]:
        least, most = VERSIONS
        how = connection.how("fetch", least, most if by_id else WITHOUT_TOPIC_IDS)
        body = how.body(self._fields | request.fields(by_id=how.version > WITHOUT_TOPIC_IDS))
        timeout_ms = self._cluster.config.request_timeout_ms + self._settings.max_wait_ms
        return how, await connection.submit(how, body, timeout_ms=timeout_ms)

    def _refused(self, claimed: Iterable[FetchPartition], code: int) -> float:
        """The answer as a whole has an error."""
        if not is_session_lost(code):
            error = KafkaError(error_code(code), f"fetching from broker {self._node_id}")
            for each in claimed:
                self._resolver.failed(each, error)
        return self._idle.next_s()

    def _take_in(
        self, asked: dict[FetchPartition, tuple[int, RequestedPartition]], response: FetchResponse
    ) -> bool:
        """Have what the answer brought; whether that is anything."""
        by_key: dict[Any, FetchPartition] = {}
        for each, (_, what) in asked.items():
            by_key[what.topic_id, each.tp.partition] = by_key[each.tp] = each
        brought = False
        for told in response.partitions:
            partition = by_key.pop((told.topic, told.partition), None)
            if partition is None or partition.serial != asked[partition][0]:
                continue
            brought |= self._one(partition, told)
        for each, (serial, _) in asked.items():
            if each.leader is not None and serial == each.serial:
                each.succeeded()
        return brought

    def _one(self, partition: FetchPartition, told: PartitionResponse) -> bool:
        if told.error:
            self._failed(partition, told)
            return True
        partition.high_watermark = told.high_watermark
        partition.last_stable_offset = told.last_stable_offset
        partition.log_start_offset = told.log_start_offset
        if told.diverging is not None:
            self._resolver.truncated(partition, told.diverging[1])
            return True
        if told.preferred_replica not in (NO_REPLICA, self._node_id):
            self._resolver.read_from(partition, told.preferred_replica)
            return True
        if (
            partition.replica is not None
            and asyncio.get_running_loop().time() >= partition.replica_until
        ):
            self._resolver.read_from(partition, None)
        return bool(told.records) and self._records(partition, told)

    def _records(self, partition: FetchPartition, told: PartitionResponse) -> bool:
        begin = partition.fetch_offset
        try:
            found = scan(partition.tp, told.records, begin, check_crcs=self._settings.check_crcs)
        except KafkaError as error:
            partition.refuse(error)
            return True
        if found.next_offset == begin:
            return False
        batch = Batch(
            partition.tp,
            told.records[: found.size],
            begin,
            found.next_offset,
            leader_epoch=found.leader_epoch,
            high_watermark=told.high_watermark,
            last_stable_offset=told.last_stable_offset,
            log_start_offset=told.log_start_offset,
            aborted=told.aborted,
        )
        partition.put(batch)
        return True

    def _failed(self, partition: FetchPartition, told: PartitionResponse) -> None:
        code = error_code(told.error)
        if code in WRONG_LEADER or code in UNKNOWN_TOPIC or code is ErrorCode.offset_out_of_range:
            # Out of range is also what a topic answers that was made anew.
            self._cluster.stale(partition.tp.topic)
        error = KafkaError(code, f"fetching {partition.tp} at offset {partition.fetch_offset}")
        if partition.replica is not None:
            # A follower may be behind, or not be one any more: that says nothing of what the leader
            # has.
            told_by = (
                f"broker {self._node_id} was to be read instead of the leader of "
                f"{partition.tp}: {error}"
            )
            self._resolver.failed(partition, KafkaError(ErrorCode.replica_not_available, told_by))
            return
        if code is ErrorCode.offset_out_of_range:
            start = told.log_start_offset
            self._resolver.out_of_range(
                partition, OffsetOutOfRangeError(partition.tp, partition.fetch_offset, start)
            )
        elif code is ErrorCode.corrupt_message:
            partition.refuse(error)
        else:
            self._resolver.failed(partition, error)
