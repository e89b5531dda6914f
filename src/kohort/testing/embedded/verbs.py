"""What a test can do to an embedded server: one function for each verb.

Each is called on the loop of the server. Arguments and results are plain values, so a server in
another process offers the same verbs: each has a row in `kohort.testing.control.routes`. Only the
predicate of a fault is bound to the process of the server.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Unpack

from kohort.errors import ErrorCode, KohortError
from kohort.testing.embedded import (
    arguments,
    loaded_groups,
    open_transactions,
    started_groups,
)
from kohort.testing.embedded.due_timers import DueTimer, read_timers
from kohort.testing.embedded.embedded_server import EmbeddedServer
from kohort.testing.embedded.exchange_log import LoggedExchange
from kohort.testing.embedded.faults import (
    Fault,
    FaultState,
    Which,
    cutting,
    delaying,
    find_api,
    find_error,
    refusal,
    refusing,
    throttling,
    truncating,
    verify,
)
from kohort.testing.embedded.group_state import GroupState
from kohort.testing.embedded.loaded_groups import LoadedGroups
from kohort.testing.embedded.open_transactions import OpenTransaction
from kohort.testing.embedded.topic_records import TopicRecord, append_records, read_records
from kohort.testing.embedded.transaction_state import TransactionState, read_transactions
from kohort.testing.start_states import StartState

COORDINATOR_APIS: Final = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "TxnOffsetCommit",
    "ConsumerGroupHeartbeat",
)
"""APIs of the coordinator of a group."""
SETTLE_S: Final = 0.025
"""Time beyond that of `advance`, in which the server does what is due; it defers work by 20 ms."""


def bootstrap(server: EmbeddedServer) -> str:
    """HOST:PORT for clients."""
    return str(server.broker.advertised)


def timeline(server: EmbeddedServer) -> str:
    """The latest events with the server's time: rebalances, faults, kills, advanced time."""
    return str(server.timeline)


def exchanges(server: EmbeddedServer) -> list[LoggedExchange]:
    """The latest 1,000 requests and their responses, in the order in which they were handled."""
    return list(server.exchanges.read())


def timers(server: EmbeddedServer) -> list[DueTimer]:
    """The timers of groups and transactions, the next one first."""
    return read_timers(server.broker)


def transactions(server: EmbeddedServer) -> list[TransactionState]:
    """All transactional ids with their states."""
    return read_transactions(server.broker)


# --- topics ---


def topic(
    server: EmbeddedServer, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic. Raises KafkaError, such as TOPIC_ALREADY_EXISTS."""
    arguments.text("name", name)
    arguments.whole("partitions", partitions, least=1)
    checked = arguments.mapping("configs", configs or {})
    for key, value in checked.items():
        arguments.text(f"configs: {key}", value)
    server.create_topic(name, partitions, checked)


def produce(
    server: EmbeddedServer,
    topic: str,
    values: Sequence[bytes | None],
    key: bytes | None = None,
    partition: int = 0,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> int:
    """Append records to a partition; returns the offset of the first. Raises KafkaError."""
    if not values:
        raise KohortError('produce at least one value: produce("orders", b"paid")')
    return append_records(
        server.broker,
        arguments.text("topic", topic),
        [arguments.data("value", value) for value in values],
        key=arguments.data("key", key),
        partition=arguments.whole("partition", partition, least=0),
        headers=arguments.headers(headers),
    )


def records(server: EmbeddedServer, topic: str) -> list[TopicRecord]:
    """The committed records of a topic, by partition and offset. Raises KafkaError."""
    return read_records(server.broker, arguments.text("topic", topic))


# --- groups ---


async def read_group(server: EmbeddedServer, group: str) -> GroupState:
    """The group as it is now, all fields of one moment."""
    return await server.read_group(group)


async def start_group(
    server: EmbeddedServer,
    group: str,
    members: int | None = None,
    instance_ids: Sequence[str] = (),
    generation: int | None = None,
    topics: Sequence[str] = (),
    committed: Mapping[tuple[str, int], int] | None = None,
    type: str = "classic",
    assignor: str = "range",
    reconciling: bool = False,
    session_timeout_ms: int = 45_000,
) -> tuple[str, ...]:
    """Begin with a stable group that has members, a generation and committed offsets.

    `members` is their number, `instance_ids` has the group.instance.id of the first ones, which are
    static. `generation` is the epoch of a group of type consumer. Members subscribe to `topics`, by
    default to those of `committed`. `reconciling`: the last member of a consumer group has just
    joined, and the others have not revoked its partitions.

    The group is loaded from records that its coordinator would write, as after a failover: each
    member has a new session, and no connection. Other groups in its partition of __consumer_offsets
    are loaded again, too; their requests in progress get NOT_COORDINATOR. Returns the member ids.
    Raises KohortError for a group that exists or could not be.
    """
    most = 2**31 - 1
    state = StartState(
        members=members if members is None else arguments.whole("members", members, least=0),
        instance_ids=arguments.names("instance_ids", instance_ids),
        generation=(
            generation
            if generation is None
            else arguments.whole("generation", generation, least=0, most=most)
        ),
        topics=arguments.names("topics", topics),
        committed=arguments.offsets(committed) if committed else {},
        type=arguments.one_of("type", type, ("classic", "consumer")),
        assignor=arguments.text("assignor", assignor),
        reconciling=reconciling,
        session_timeout_ms=arguments.whole(
            "session_timeout_ms", session_timeout_ms, least=1, most=most
        ),
    )
    return await started_groups.start_group(server, group, state)


async def commit(
    server: EmbeddedServer, group: str, offsets: Mapping[tuple[str, int], int]
) -> None:
    """Commit offsets by topic and partition, for a group without members.

    Raises KafkaError: UNKNOWN_MEMBER_ID if it has members, UNKNOWN_TOPIC_OR_PARTITION.
    """
    await server.commit(group, arguments.offsets(offsets))


async def load(server: EmbeddedServer, path: str) -> LoadedGroups:
    """Load the groups of a data directory, or of a copy of its __consumer_offsets.

    The directory is one of Apache Kafka or Kohort, and only read. Topics of committed offsets and
    of directories beside them are created, without records. Raises KohortError for a directory
    without groups, a damaged file, and groups that exist.
    """
    return await loaded_groups.load_groups(server, Path(arguments.text("path", path)))


# --- transactions ---


async def open_transaction(
    server: EmbeddedServer,
    transactional_id: str,
    records: Mapping[tuple[str, int], Sequence[bytes]],
    offsets: Mapping[tuple[str, int], int] | None = None,
    group: str = "",
    timeout_ms: int = 60_000,
) -> OpenTransaction:
    """Begin with an open transaction, as a producer leaves it that crashes.

    It has these records by topic and partition, and `offsets` of a `group`. The server aborts it
    after `timeout_ms` of its time, or when a producer with the same id starts. Raises KafkaError,
    such as UNKNOWN_TOPIC_OR_PARTITION.
    """
    if not records and not offsets:
        raise KohortError("a transaction opens with its first record or offset: pass some")
    return await open_transactions.open_transaction(
        server,
        arguments.text("transactional_id", transactional_id),
        arguments.values_by_partition("records", records),
        arguments.offsets(offsets) if offsets else {},
        arguments.text("group", group) if offsets else group,
        arguments.whole("timeout_ms", timeout_ms, least=1, most=2**31 - 1),
    )


# --- recordings ---


def start_recording(server: EmbeddedServer, path: str, redact_values: bool = False) -> None:
    """Record all requests and responses to a new file. Raises RecordingError if it exists.

    `redact_values` replaces keys, values and header values of records by pseudonyms of the same
    length; secrets are removed always.
    """
    server.recordings.start(Path(path), redact_values=redact_values)


def stop_recording(server: EmbeddedServer, path: str) -> None:
    """End the recording to a file. Idempotent. Raises RecordingError if it was not written."""
    server.recordings.stop(Path(path))


def request_count(server: EmbeddedServer) -> int:
    """Number of requests that the server has begun to handle."""
    return server.broker.listener.metrics.requests.total()


# --- clients ---


def kill(
    server: EmbeddedServer, client_id: str | None = None, member_id: str | None = None
) -> None:
    """Cut the connections of a client, now and whenever it connects again.

    The group learns of it only when the session of the member expires. A member loses the
    connection by which it joins and commits. A client id loses all connections of its clients.
    Raises KohortError without either of them.
    """
    if client_id is None and member_id is None:
        raise KohortError(
            "name the client to kill by its client_id, or by its member_id when it has joined"
        )
    for name, value in (("client_id", client_id), ("member_id", member_id)):
        if value is not None:
            arguments.text(name, value)
    cut = server.clients.kill(client_id=client_id, member_id=member_id)
    server.timeline.add(f"killed {member_id or client_id}: {cut} connections")


def revive(server: EmbeddedServer) -> None:
    """Let all killed clients connect again, as after a partition of the network."""
    server.clients.revive()


def let_killed_leave(server: EmbeddedServer) -> None:
    """Let killed clients commit and leave, but not join: so they close without waiting."""
    server.clients.let_leave()


# --- time ---


def time(server: EmbeddedServer) -> float:
    """Seconds of the server's monotonic clock."""
    return server.loop.time()


def freeze(server: EmbeddedServer, creeps: bool = True) -> None:
    """Stop the server's time, until `resume`; only `advance` moves it on.

    With `creeps`, waits of at most 25 ms happen nevertheless: a server without them would not
    respond to all requests.
    """
    server.loop.freeze(creeps=creeps)


def is_frozen(server: EmbeddedServer) -> bool:
    """Whether the server's time is stopped."""
    return server.loop.is_frozen


def resume(server: EmbeddedServer) -> None:
    """Let the server's time pass again, as fast as the machine's."""
    server.loop.resume()


async def advance(server: EmbeddedServer, seconds: float) -> None:
    """Let `seconds` of the server's time pass now, with all that happens in it, in order.

    A member whose connection is open keeps its session, as if its client had sent heartbeats. A
    killed one expires.
    """
    arguments.seconds("seconds", seconds)
    server.timeline.add(f"advance by {seconds:g} s")
    await server.loop.advance(seconds + SETTLE_S)


async def pass_time(server: EmbeddedServer, seconds: float, to_next_timer: bool = False) -> None:
    """As `advance`, but members that send no heartbeats expire though they are connected.

    `to_next_timer`: at most `seconds`, and no more than until the next timer.
    """
    await server.pass_time(seconds, to_next_timer=to_next_timer)


async def advance_to_next_timer(server: EmbeddedServer, at_most: float) -> None:
    """Advance to the next timer and fire it, but not beyond the time `at_most` of the server."""
    await server.loop.advance_to_next_timer(at_most)


async def restart(server: EmbeddedServer) -> None:
    """Stop the server and start it again, on the same port, with what it has stored.

    Raises KohortError if its records are in memory.
    """
    await server.restart()


# --- faults ---


def fail(server: EmbeddedServer, api: str, error: str, **which: Unpack[Which]) -> FaultState:
    """Respond to requests with an error, and do nothing else.

    `api` and `error` have Kafka's names, such as OffsetCommit and NOT_COORDINATOR. The next `times`
    requests of the API are concerned (1; None: all), or of those only the ones of a `group` or a
    `client_id`. A fault that no request has met is an error at the end of the test unless
    `required` is false. Raises KohortError for unknown names, and for an API that cannot be failed.
    """
    known = find_api(api)
    effect = refusal(known, find_error(error))
    return server.faults.add(Fault((known,), effect, f"fails with {error}", **which))


def delay(server: EmbeddedServer, api: str, seconds: float, **which: Unpack[Which]) -> FaultState:
    """Handle requests after so many seconds of the server's time; else as `fail`."""
    text = f"is delayed by {arguments.seconds('seconds', seconds):g} s"
    return server.faults.add(Fault((find_api(api),), delaying(seconds), text, **which))


def drop(
    server: EmbeddedServer,
    api: str,
    applied: bool = False,
    **which: Unpack[Which],
) -> FaultState:
    """Cut the connection instead of a response; else as `fail`.

    The request has no effect, or with `applied` its whole effect: the client cannot know which.
    """
    text = "is applied without a response" if applied else "is dropped"
    return server.faults.add(Fault((find_api(api),), cutting(applied=applied), text, **which))


def truncate(server: EmbeddedServer, api: str, **which: Unpack[Which]) -> FaultState:
    """Send the first half of the response and close the connection; else as `fail`.

    The request has its whole effect.
    """
    text = "gets half of its response"
    return server.faults.add(Fault((find_api(api),), truncating, text, **which))


def throttle(
    server: EmbeddedServer, api: str, seconds: float, **which: Unpack[Which]
) -> FaultState:
    """Throttle the client for so many seconds, as a quota does; else as `fail`.

    The response has that `throttle_time_ms`, and the server takes no further request of the
    connection for so long, in its own time.
    """
    text = f"is throttled for {arguments.seconds('seconds', seconds):g} s"
    return server.faults.add(Fault((find_api(api),), throttling(seconds), text, **which))


def move_coordinator(server: EmbeddedServer, group: str, required: bool = True) -> FaultState:
    """Respond NOT_COORDINATOR to the group's requests until a client looks for its coordinator.

    That is what clients see when another node becomes the coordinator. Requests that wait, such as
    a JoinGroup, go on waiting.
    """
    effect = refusing(ErrorCode.not_coordinator)
    return server.faults.add(
        Fault(
            tuple(map(find_api, COORDINATOR_APIS)),
            effect,
            "fail with NOT_COORDINATOR until FindCoordinator",
            times=None,
            group=group,
            required=required,
            subject="requests of",
            until=find_api("FindCoordinator"),
        )
    )


async def evict(server: EmbeddedServer, group: str, member_id: str) -> None:
    """Remove a member from its group, as an administrator does; the group rebalances.

    Raises KafkaError: UNKNOWN_MEMBER_ID.
    """
    await server.evict(group, arguments.text("member_id", member_id))


def faults(server: EmbeddedServer) -> list[FaultState]:
    """All faults, in the order in which they were set."""
    return server.faults.states()


def verify_faults(server: EmbeddedServer, numbers: Sequence[int] | None = None) -> None:
    """Raise AssertionError for a required fault that no request has met, or whose `when` raised.

    `numbers` are those of the faults that are looked at; without them, all.
    """
    states = [each for each in server.faults.states() if numbers is None or each.number in numbers]
    verify(states)


def clear_faults(server: EmbeddedServer, numbers: Sequence[int] | None = None) -> None:
    """Remove the faults with these numbers; without them, all."""
    server.faults.remove(numbers)
