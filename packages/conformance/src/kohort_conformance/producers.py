"""Transactional producers as scenarios play them, with the state that a client library keeps.

A `PlayedProducer` knows its transactional id, producer id and epoch from the responses it got, and
fills requests with them; every field can be said otherwise in the call (`a.end(True,
producer_epoch=7)`). Forms in -ing send and go on, the plain ones record the response.

The version of a request decides how Kafka treats a transaction. With the old protocol partitions
are added by AddPartitionsToTxn and AddOffsetsToTxn and the epoch stays; from Produce v12,
TxnOffsetCommit v5 and EndTxn v5 on the first write adds a partition, and every end bumps the epoch
(KIP-890).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kohort_conformance.batches import TRANSACTIONAL, RecordBatch, records
from kohort_conformance.members import NONE
from kohort_conformance.stage import Client, Parked, SetUpError, Stage, topic_id

TIMEOUT_MS = 60_000
CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS (51)"
COMPLETE = {True: "CompleteCommit", False: "CompleteAbort"}
OLD, NEW = 4, 5
"""Versions of EndTxn that leave the epoch, and that bump it; TxnOffsetCommit has the same two."""
BY_ID = 6
"""The version of TxnOffsetCommit that has topics by id."""


@dataclass
class PlayedProducer:
    """One transactional producer on its own connection."""

    client: Client
    transactional_id: str
    id: int = -1
    epoch: int = -1

    @property
    def stage(self) -> Stage:
        return self.client.stage

    def learn(self, response: Mapping[str, Any]) -> None:
        """Remember the producer id and epoch of a response that has them."""
        if response.get("error_code") == NONE and "producer_id" in response:
            self.id, self.epoch = response["producer_id"], response["producer_epoch"]

    # --- InitProducerId

    def initializing(self, version: int = 5, **values: Any) -> Parked:
        """Send InitProducerId without the producer's own id and epoch."""
        return self.client.send("InitProducerId", version, **self._initial(values))

    async def init(self, version: int = 5, **values: Any) -> None:
        """InitProducerId, recorded once no transaction of the id is ending."""
        self.learn(await self._eventually("InitProducerId", version, self._initial(values)))

    async def init_again(self, version: int = 5, **values: Any) -> None:
        """As `init`, with the producer's own id and epoch."""
        await self.init(version, **{**self._named(), **values})

    def _initial(self, values: Mapping[str, Any]) -> dict[str, Any]:
        given = {"transactional_id": self.transactional_id, "transaction_timeout": TIMEOUT_MS}
        return {**given, **values}

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }

    # --- adding

    def adding(self, topic: str, *partitions: int, version: int = 3, **values: Any) -> Parked:
        """Send AddPartitionsToTxn for partitions of one topic (0 when none are named)."""
        topics = [{"name": topic, "partitions": partitions or (0,)}]
        request = {**self._named(), "topics": topics, **values}
        return self.client.send(
            "AddPartitionsToTxn",
            version,
            **{f"v3_and_below_{name}": value for name, value in request.items()},
        )

    async def add(self, topic: str, *partitions: int, version: int = 3, **values: Any) -> None:
        """AddPartitionsToTxn as clients send it, recorded."""
        await self.adding(topic, *partitions, version=version, **values).response()

    async def add_offsets(self, group: str, version: int = 3, **values: Any) -> None:
        """AddOffsetsToTxn, recorded."""
        request = {**self._named(), "group_id": group, **values}
        await self.client.ask("AddOffsetsToTxn", version, **request)

    # --- writing

    def batch(self, sequence: int = 0, count: int = 1, **values: Any) -> bytes:
        """A transactional batch of so many records."""
        given = {
            "attributes": TRANSACTIONAL,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            **values,
        }
        return RecordBatch(records(*[b"v"] * count), **given).encode()

    def writing(
        self, topic: str, data: bytes | None = None, version: int = 9, partition: int = 0
    ) -> Parked:
        """Send Produce of a batch (by default the producer's first) to one partition."""
        partitions = [{"index": partition, "records": self.batch() if data is None else data}]
        return self.client.send(
            "Produce",
            version,
            transactional_id=self.transactional_id,
            acks=-1,
            timeout=5_000,
            topic_data=[{"name": topic, "partition_data": partitions}],
        )

    async def write(
        self, topic: str, data: bytes | None = None, version: int = 9, partition: int = 0
    ) -> None:
        """Produce, recorded."""
        await self.writing(topic, data, version, partition).response()

    async def write_refused(
        self, topic: str, data: bytes | None = None, version: int = 9, partition: int = 0
    ) -> None:
        """Produce to a partition that may not be in the transaction, recorded as it is steady."""
        await steady(lambda: self.writing(topic, data, version, partition))

    def committing_offsets(
        self,
        group: str,
        topic: str,
        offsets: Mapping[int, int],
        version: int = 4,
        identity: uuid.UUID | None = None,
        **values: Any,
    ) -> Parked:
        """Send TxnOffsetCommit; from version 6 on the topic is named by its id."""
        partitions = [
            {"partition_index": one, "committed_offset": offset, "committed_metadata": ""}
            for one, offset in offsets.items()
        ]
        topics = [{"name": topic, "topic_id": identity, "partitions": partitions}]
        request = {**self._named(), "group_id": group, "topics": topics, **values}
        request["generation_id_or_member_epoch"] = values.get("generation_id", -1)
        return self.client.send("TxnOffsetCommit", version, **request)

    async def commit_offsets(
        self, group: str, topic: str, offsets: Mapping[int, int], version: int = 4, **values: Any
    ) -> None:
        """TxnOffsetCommit, recorded."""
        identity = await topic_id(self.client, topic) if version >= BY_ID else None
        await self.committing_offsets(group, topic, offsets, version, identity, **values).response()

    async def commit_refused(
        self, group: str, topic: str, offsets: Mapping[int, int], version: int = 4
    ) -> None:
        """TxnOffsetCommit of a group that is not in the transaction, recorded as it is steady."""
        await steady(lambda: self.committing_offsets(group, topic, offsets, version))

    # --- scenes

    async def open(self, topic: str, *partitions: int, sequence: int = 0, count: int = 1) -> None:
        """Begin a transaction of the old protocol, or go on with it, unrecorded.

        `count` records are written to each partition (0 when none are named).
        """
        added = await self.adding(topic, *partitions).quiet()
        told = [
            one["partition_error_code"]
            for each in added["results_by_topic_v3_and_below"]
            for one in each["results_by_partition"]
        ]
        data = self.batch(sequence, count)
        told += [await self._written(topic, data, 9, one) for one in partitions or (0,)]
        _succeeded("a transaction", told)

    async def open_new(self, topic: str, *partitions: int, count: int = 1) -> None:
        """As `open`, by the first batch to each partition alone."""
        told = [
            await self._written(topic, self.batch(count=count), 12, partition)
            for partition in partitions or (0,)
        ]
        _succeeded("a transaction", told)

    async def _written(self, topic: str, data: bytes, version: int, partition: int) -> str:
        response = await self.writing(topic, data, version, partition).quiet()
        return str(response["responses"][0]["partition_responses"][0]["error_code"])

    # --- ending

    def ending(self, commit: bool, version: int = OLD, **values: Any) -> Parked:
        """Send EndTxn."""
        return self.client.send(
            "EndTxn", version, **{**self._named(), "committed": commit, **values}
        )

    async def end(self, commit: bool, version: int = OLD, **values: Any) -> None:
        """EndTxn, recorded once no end is under way, and wait until its markers are written."""
        request = {**self._named(), "committed": commit, **values}
        response = await self._eventually("EndTxn", version, request)
        self.learn(response)
        if response.get("error_code") == NONE:
            await self.until(COMPLETE[commit])

    async def close(self, commit: bool, version: int = OLD) -> None:
        """As `end`, unrecorded."""
        response = await self.ending(commit, version).quiet()
        _succeeded("EndTxn", [response["error_code"]])
        self.learn(response)
        await self.until(COMPLETE[commit])

    async def until(self, state: str, seconds: float = 15.0) -> None:
        """Wait, unrecorded, until the transactional id is described in this state."""

        async def is_so() -> bool:
            return (await described(self.client, self.transactional_id)) == state

        await self.stage.until(f"{self.transactional_id} {state}", is_so, seconds)

    async def describe(self) -> None:
        """DescribeTransactions, recorded."""
        await self.client.ask("DescribeTransactions", 0, transactional_ids=[self.transactional_id])

    async def _eventually(
        self, api: str, version: int, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The first response other than CONCURRENT_TRANSACTIONS, recorded."""
        heard: list[Parked] = []

        async def is_free() -> bool:
            heard.append(self.client.send(api, version, **request))
            response = await heard[-1].quiet()
            return bool(response["error_code"] != CONCURRENT_TRANSACTIONS)

        await self.stage.until(f"{api} is free", is_free)
        return await heard[-1].response()


async def steady(send: Callable[[], Parked]) -> None:
    """Send until a response comes four times in a row, and record that.

    For refusals, which change nothing: Kafka verifies requests of several producers at once, and
    then some get the error that is for the version of another.
    """
    sent: list[Parked] = []
    heard: list[dict[str, Any]] = []
    while len(heard) < 4 or any(one != heard[-1] for one in heard[-4:]):
        sent.append(send())
        heard.append(await sent[-1].quiet())
    await sent[-1].response()


def _succeeded(what: str, codes: list[str]) -> None:
    if any(code != NONE for code in codes):
        raise SetUpError(f"{what}: {codes}")


async def described(client: Client, transactional_id: str) -> str:
    """The state in which DescribeTransactions has this id, unrecorded."""
    told = await client.quiet("DescribeTransactions", 0, transactional_ids=[transactional_id])
    return str(told["transaction_states"][0]["transaction_state"])


async def newcomer(stage: Stage, client_id: str = "a", name: str | None = None) -> PlayedProducer:
    """A producer to be, on a connection of its own; it has sent nothing.

    Its transactional id is named after `name`, by default the client id.
    """
    transactional_id = f"{stage.name}-{name or client_id}{stage.suffix}"
    return PlayedProducer(await stage.client(client_id), transactional_id)


async def producer(
    stage: Stage, client_id: str = "a", name: str | None = None, **values: Any
) -> PlayedProducer:
    """A producer that has its id and epoch, unrecorded."""
    one = await newcomer(stage, client_id, name)
    response = await one.initializing(**values).quiet()
    _succeeded("InitProducerId", [response["error_code"]])
    one.learn(response)
    return one
