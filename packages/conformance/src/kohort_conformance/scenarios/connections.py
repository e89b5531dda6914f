"""The wire itself: unknown APIs and versions, ApiVersions, broken frames, tags, pipelining."""

from __future__ import annotations

import asyncio
import struct

from kohort_conformance.entities import encode_request
from kohort_conformance.members import member, protocols, stable, until_rebalancing
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Parked, Stage

SERVED = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch",
    10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup",
    15: "DescribeGroups", 16: "ListGroups", 18: "ApiVersions", 19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords", 22: "InitProducerId", 23: "OffsetForLeaderEpoch", 32: "DescribeConfigs",
    37: "CreatePartitions", 42: "DeleteGroups", 44: "IncrementalAlterConfigs",
    46: "ListPartitionReassignments",
    47: "OffsetDelete", 60: "DescribeCluster", 75: "DescribeTopicPartitions",
}  # fmt: skip
"""The APIs whose versions are compared: what clients of groups, topics and records need."""


def header(
    api: int,
    version: int,
    correlation: int = 1,
    client_id: bytes | None = b"a",
    flexible: bool = False,
) -> bytes:
    """A request header of version 1, or 2 when flexible."""
    said = (
        struct.pack(">h", -1)
        if client_id is None
        else struct.pack(">h", len(client_id)) + client_id
    )
    return struct.pack(">hhi", api, version, correlation) + said + (b"\0" if flexible else b"")


def text(value: bytes, length: int | None = None) -> bytes:
    """A string of the old encoding, with another length than its own if said."""
    return struct.pack(">h", len(value) if length is None else length) + value


async def bad(
    stage: Stage, name: str, frame: bytes, api: str = "Heartbeat", version: int = 0
) -> None:
    """Send a frame on a connection of its own.

    Record the response, if there is one, or that the connection is closed.
    """
    client = await stage.client(name)
    call = client.connection.expect(api, version)
    client.connection.send_frame(frame)
    await Parked(stage, call, name).response(3)


@scenario
async def api_versions(stage: Stage) -> None:
    """Which versions of the APIs compared are served.

    The rest of the response depends on the server.
    """
    a = await stage.client()
    for version in range(6):
        response = await a.quiet(
            "ApiVersions", version, client_software_name="kohort", client_software_version="1.0"
        )
        stage.note(f"ApiVersions v{version}", response["error_code"])
    ranges = {
        SERVED[one["api_key"]]: one for one in response["api_keys"] if one["api_key"] in SERVED
    }
    for name in SERVED.values():
        one = ranges.get(name, {"min_version": None, "max_version": None})
        stage.note(f"{name} versions", [one["min_version"], one["max_version"]])


@scenario
async def api_versions_of_the_future(stage: Stage) -> None:
    """An unknown version of ApiVersions gets 35 in the form of version 0; the connection lives."""
    a = await stage.client()
    for version in (6, 99, 32_767):
        call = a.connection.expect("ApiVersions", 0)
        correlation = call.correlation_id
        body = header(18, version, correlation, flexible=True) + b"\x01\x01\0"
        a.connection.send_frame(body)
        response = await Parked(stage, call, "").quiet()
        stage.note(
            f"ApiVersions v{version}",
            [response["error_code"], [one["api_key"] for one in response["api_keys"]]],
        )
    await a.ask("Heartbeat", 0, group_id=stage.group, generation_id=1, member_id="nobody")


@scenario
async def api_versions_with_odd_names(stage: Stage) -> None:
    """Software names must be of letters, digits, dots and dashes, from version 3 on."""
    a = await stage.client()
    for name, version in (
        ("", "1.0"),
        ("kohort", ""),
        ("a b", "1.0"),
        ("kohort", "1 0"),
        ("-k", "1"),
        ("k.o-h", "1-r.c"),
    ):
        response = await a.quiet(
            "ApiVersions", 3, client_software_name=name, client_software_version=version
        )
        stage.note(
            f"{name!r} {version!r}", [response["error_code"], len(response["api_keys"]) > 20]
        )
    response = await a.quiet(
        "ApiVersions", 3, client_software_name="k", client_software_version="1"
    )
    stage.note("the connection lives", response["error_code"])


@scenario
async def api_versions_again(stage: Stage) -> None:
    """ApiVersions may come at any time, also behind other requests."""
    a = await stage.client()
    await a.ask("Heartbeat", 0, group_id=stage.group, generation_id=1, member_id="nobody")
    for version in (0, 3, 0):
        response = await a.quiet(
            "ApiVersions", version, client_software_name="k", client_software_version="1"
        )
        stage.note(f"ApiVersions v{version}", response["error_code"])


@scenario
async def unknown_apis(stage: Stage) -> None:
    """An API key that nobody has closes the connection."""
    for key in (999, -1, 32_767):
        await bad(stage, f"api {key}", header(key, 0) + b"\0\0\0\0")


@scenario
async def removed_and_internal_apis(stage: Stage) -> None:
    """LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown are gone."""
    for key in (4, 5, 6, 7):
        await bad(stage, f"api {key}", header(key, 1) + b"\0" * 20)


@scenario
async def versions_not_served(stage: Stage) -> None:
    """Versions above and below the served range close the connection."""
    ranges = {11: 10, 12: 5, 14: 6, 9: 11, 8: 11, 3: 14, 10: 7, 16: 6}
    for key, version in ranges.items():
        await bad(stage, f"api {key} v{version}", header(key, version, flexible=True) + b"\0" * 30)
    for key, version in ((8, 1), (9, 0), (1, 3), (2, 0), (19, 1), (20, 0), (12, -1)):
        await bad(stage, f"api {key} v{version}", header(key, version) + b"\0" * 30)


@scenario
async def old_produce(stage: Stage) -> None:
    """Produce is advertised from version 0 for old clients' sake, and served from 3."""
    for version in (0, 1, 2):
        frame = header(0, version) + struct.pack(">hii", 1, 1_000, 0)
        await bad(stage, f"v{version}", frame, "Produce", 3)


@scenario
async def sizes(stage: Stage) -> None:
    """Frames of negative, zero, too small and enormous size close the connection."""
    for size in (-1, 0, 3, 7, 2**31 - 1, 200_000_000):
        client = await stage.client(f"size {size}")
        client.connection.send_bytes(struct.pack(">i", size) + b"\0" * 10)
        if 0 <= size <= 10:
            client.connection.send_bytes(b"\0" * 20)
        await client.is_hung_up()


@scenario
async def empty_bodies(stage: Stage) -> None:
    """A header without a body closes the connection."""
    for key, version in ((12, 0), (11, 5), (14, 3), (8, 2)):
        await bad(stage, f"api {key} v{version}", header(key, version))
    for key, version in ((12, 4), (11, 9), (9, 8)):
        await bad(stage, f"api {key} v{version}", header(key, version, flexible=True))


@scenario
async def cut_bodies(stage: Stage) -> None:
    """A request that ends too early closes the connection, wherever it ends."""
    values = {"group_id": stage.group, "generation_id": 1, "member_id": "nobody"}
    for version in (0, 4):
        whole = encode_request("Heartbeat", version, values, 1, "a")
        for cut in (1, 3, len(whole) // 2):
            await bad(
                stage, f"v{version} without the last {cut if cut < 4 else 'half'}", whole[:-cut]
            )


@scenario
async def bytes_behind(stage: Stage) -> None:
    """Bytes behind a request are ignored."""
    values = {"group_id": stage.group, "generation_id": 1, "member_id": "nobody"}
    for version in (0, 4):
        whole = encode_request("Heartbeat", version, values, 1, "a")
        await bad(stage, f"v{version}", whole + b"\xff" * 9, "Heartbeat", version)


@scenario
async def wrong_string_lengths(stage: Stage) -> None:
    """Lengths beyond the end, and negative ones of strings that cannot be null."""
    rest = struct.pack(">i", 1) + text(b"nobody")
    for length in (1_000, 32_767, -1, -2, -32_768):
        await bad(stage, f"length {length}", header(12, 0) + text(b"group", length) + rest)


@scenario
async def wrong_compact_lengths(stage: Stage) -> None:
    """The same of compact strings: null, beyond the end, and a length that never ends."""
    rest = struct.pack(">i", 1) + b"\x07nobody\0\0"
    lengths = {
        "null": b"\0",
        "beyond": b"\xff\x01",
        "huge": b"\xff\xff\xff\xff\x07",
        "endless": b"\xff" * 6,
    }
    for name, length in lengths.items():
        await bad(
            stage, name, header(12, 4, flexible=True) + length + b"group" + rest, "Heartbeat", 4
        )


@scenario
async def wrong_array_lengths(stage: Stage) -> None:
    """Arrays of negative and impossible length."""
    for length in (-1, -2, 1_000_000, 2**31 - 1):
        await bad(
            stage,
            f"DescribeGroups {length}",
            header(15, 0) + struct.pack(">i", length),
            "DescribeGroups",
            0,
        )
    for name, count in {"null": b"\0", "huge": b"\xff\xff\xff\xff\x0f"}.items():
        frame = header(15, 5, flexible=True) + count + b"\0\0"
        await bad(stage, f"DescribeGroups v5 {name}", frame, "DescribeGroups", 5)


@scenario
async def text_that_is_not_utf8(stage: Stage) -> None:
    """Bytes that are no UTF-8: in the client id and in a name."""
    beat = text(b"group") + struct.pack(">i", 1) + text(b"nobody")
    await bad(stage, "client id", header(12, 0, client_id=b"\xff\xfe") + beat)
    other = text(b"\xff\xfe") + struct.pack(">i", 1) + text(b"nobody")
    await bad(stage, "group id", header(12, 0) + other)


@scenario
async def client_ids(stage: Stage) -> None:
    """Null, empty and long client ids."""
    beat = text(b"group") + struct.pack(">i", 1) + text(b"nobody")
    for name, value in (("null", None), ("empty", b""), ("long", b"x" * 20_000)):
        await bad(stage, name, header(12, 0, client_id=value) + beat)


def tagged(tags: bytes, in_header: bytes = b"\0") -> bytes:
    """A Heartbeat v4 with these tagged fields in its body and header."""
    start = struct.pack(">hhi", 12, 4, 1) + text(b"a") + in_header
    return start + b"\x06group" + struct.pack(">i", 1) + b"\x07nobody" + b"\0" + tags


@scenario
async def unknown_tags(stage: Stage) -> None:
    """Tagged fields that nobody knows are skipped, in header and body, in any order and number."""
    bodies = {
        "none": b"\0",
        "one": b"\x01\x63\x03abc",
        "empty one": b"\x01\x63\x00",
        "descending": b"\x02\x63\x01a\x10\x01b",
        "twice": b"\x02\x63\x01a\x63\x01b",
        "three hundred": b"\xac\x02" + b"\x63\x01a" * 300,
    }
    for name, tags in bodies.items():
        await bad(stage, name, tagged(tags), "Heartbeat", 4)
    await bad(stage, "in the header", tagged(b"\0", b"\x01\x63\x03abc"), "Heartbeat", 4)


@scenario
async def broken_tags(stage: Stage) -> None:
    """Tags that end too early, or whose sizes or numbers are impossible, close the connection."""
    bodies = {
        "missing": b"\x01",
        "too short": b"\x01\x63\x05ab",
        "size huge": b"\x01\x63\xff\xff\xff\xff\x07",
        "count huge": b"\xff\xff\xff\xff\x07",
        "count endless": b"\xff" * 8,
    }
    for name, tags in bodies.items():
        await bad(stage, name, tagged(tags), "Heartbeat", 4)
    await bad(stage, "in the header", tagged(b"\0", b"\x01\x63\x7f"), "Heartbeat", 4)


EMPTY_FETCH = (
    header(1, 12, flexible=True)
    + struct.pack(">iiiibii", -1, 0, 0, 1_000, 0, 0, -1)
    + b"\x01\x01\x01"
)
"""A Fetch v12 up to its tags."""


@scenario
async def known_tag_of_the_wrong_size(stage: Stage) -> None:
    """A known tagged field (Fetch v12's cluster id) that is longer than what is left."""
    await bad(stage, "no tag", EMPTY_FETCH + b"\0", "Fetch", 12)
    await bad(stage, "cut", EMPTY_FETCH + b"\x01\x00\x05\x09ab", "Fetch", 12)


@scenario
async def known_tag_of_null(stage: Stage) -> None:
    """A known tagged field that is null, where its absence would say the same."""
    await bad(stage, "null", EMPTY_FETCH + b"\x01\x00\x01\x00", "Fetch", 12)


@scenario
async def byte_by_byte(stage: Stage) -> None:
    """A request that arrives byte by byte is one request."""
    a = await stage.client()
    call = a.connection.expect("Heartbeat", 4)
    values = {"group_id": stage.group, "generation_id": 1, "member_id": "nobody"}
    frame = encode_request("Heartbeat", 4, values, call.correlation_id, "a")
    for byte in struct.pack(">i", len(frame)) + frame:
        a.connection.send_bytes(bytes([byte]))
        await asyncio.sleep(0.002)
    await Parked(stage, call, "a: Heartbeat v4").response()


@scenario
async def many_in_one_packet(stage: Stage) -> None:
    """Requests that arrive together get responses in their order."""
    a = await stage.client()
    calls = [
        a.send("Heartbeat", version, group_id=stage.group, generation_id=1, member_id="nobody")
        for version in range(5)
    ]
    calls.append(a.send("FindCoordinator", 3, key=stage.group))
    calls.append(a.send("DescribeGroups", 0, groups=[stage.group]))
    for call in calls:
        await call.response()


@scenario
async def a_hundred_pipelined(stage: Stage) -> None:
    """A hundred requests without waiting: a hundred responses, correlation ids in order."""
    a = await stage.client()
    calls = [a.send("Metadata", 9, topics=[]) for _ in range(100)]
    responses = [await call.quiet() for call in calls]
    stage.note("answers", len(responses))


@scenario
async def correlation_ids(stage: Stage) -> None:
    """Any correlation id comes back: zero, negative, the largest, twice the same."""
    a = await stage.client()
    values = {"group_id": stage.group, "generation_id": 1, "member_id": "nobody"}
    for correlation in (0, -1, -(2**31), 2**31 - 1, 7, 7):
        call = a.connection.expect("Heartbeat", 0)
        call.correlation_id = correlation
        a.connection.send_frame(encode_request("Heartbeat", 0, values, correlation, "a"))
        await Parked(stage, call, f"correlation id {correlation}").response()


@scenario
async def behind_a_parked_join(stage: Stage) -> None:
    """A request behind a parked JoinGroup waits for it; other connections do not."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    behind = b.client.send("FindCoordinator", 3, key=stage.group)
    await until_rebalancing(a)
    await behind.still_parked()
    await a.join()
    await joining.response()
    await behind.response()


@scenario
async def behind_a_parked_sync(stage: Stage) -> None:
    """A heartbeat behind a parked SyncGroup waits for it."""
    a, b = await stable(stage, "a", "b")
    joining = a.joining()
    await until_rebalancing(b)
    await b.join()
    await joining.quiet()
    syncing = b.syncing()
    behind = b.beating()
    await behind.still_parked()
    await a.sync(assignments={b.id: b"two"})
    await syncing.response()
    await behind.response()


@scenario
async def broken_behind_a_good_one(stage: Stage) -> None:
    """A broken frame behind a good request: the good one gets its response first."""
    a = await stage.client()
    good = a.send("Heartbeat", 0, group_id=stage.group, generation_id=1, member_id="nobody")
    a.connection.send_frame(header(999, 0))
    await good.response()
    await a.is_hung_up()


@scenario
async def half_closed(stage: Stage) -> None:
    """A client that closes right after its request: the request counts all the same."""
    topic = await stage.create_topic()
    a = await member(stage)
    a.committing(topic, {0: 77})
    await asyncio.sleep(0.05)
    await a.client.close()
    await stage.settle()
    b = await stage.client("b")
    asked = [{"name": topic, "partition_indexes": [0]}]
    await b.ask("OffsetFetch", 7, group_id=stage.group, topics=asked)


@scenario
async def long_names(stage: Stage) -> None:
    """Group ids, member ids and protocol names as long as the wire allows."""
    longest = "g" * 32_767
    a = await stage.client()
    response = await a.quiet("Heartbeat", 0, group_id=longest, generation_id=1, member_id=longest)
    stage.note("Heartbeat", response["error_code"])
    response = await a.quiet("DescribeGroups", 0, groups=[longest])
    stage.note(
        "DescribeGroups",
        [response["groups"][0]["error_code"], len(response["groups"][0]["group_id"])],
    )
    b = await member(stage, protocols=protocols("p" * 32_767))
    response = await (await b.handshake()).joining().quiet()
    stage.note("JoinGroup", [response["error_code"], len(response["protocol_name"])])
