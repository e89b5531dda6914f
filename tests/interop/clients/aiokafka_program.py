"""aiokafka as a group member or a producer; see lines.py."""

import asyncio
import logging
import ssl
import sys
from collections.abc import Collection
from typing import Any

import lines
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def security(options: dict[str, str]) -> dict[str, Any]:
    if "cafile" not in options:
        return {}
    context = ssl.create_default_context(cafile=options["cafile"])
    if "certificate" in options:
        context.load_cert_chain(options["certificate"])
        return {"security_protocol": "SSL", "ssl_context": context}
    login: dict[str, Any] = (
        {"sasl_oauth_token_provider": Token(options["secret"])}
        if options["mechanism"] == "OAUTHBEARER"
        else {
            "sasl_plain_username": options["username"],
            "sasl_plain_password": options["secret"],
        }
    )
    return login | {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": options["mechanism"],
        "ssl_context": context,
    }


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, options: dict[str, str]) -> None:
        self.pending: dict[TopicPartition, int] = {}
        self.topics = options["topics"].split(",")
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=options["bootstrap"],
            group_id=options["group"],
            client_id=options["client"],
            partition_assignment_strategy=[ASSIGNORS[options["assignor"]]],
            session_timeout_ms=int(options["session"]),
            heartbeat_interval_ms=int(options["heartbeat"]),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=200,
            **security(options),
        )

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await self.commit()
        self.pending.clear()
        lines.owns([])

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        lines.owns(assigned)

    async def commit(self) -> None:
        if not self.pending:
            return
        offsets = dict(self.pending)
        try:
            await self.consumer.commit(offsets)
        except KafkaError as error:
            lines.say("failed", what=f"commit: {error!r}")
            return
        lines.committed({(at.topic, at.partition): offset for at, offset in offsets.items()})
        self.pending = {
            at: offset for at, offset in self.pending.items() if offsets.get(at) != offset
        }

    async def process_some(self) -> None:
        for at, batch in (await self.consumer.getmany(timeout_ms=100)).items():
            lines.records(
                at.topic, at.partition, [r.offset for r in batch], [r.value for r in batch]
            )
            self.pending[at] = batch[-1].offset + 1

    async def run(self) -> None:
        wish = lines.Wish()
        await self.consumer.start()
        self.consumer.subscribe(self.topics, listener=self)
        while not wish.leave:
            await self.process_some()
            await self.commit()
        lines.owns([])  # stop() tells no listener
        await self.consumer.stop()
        lines.say("left")


def producer_of(codec: str, options: dict[str, str]) -> AIOKafkaProducer:
    compression = None if codec == "none" else codec
    return AIOKafkaProducer(
        bootstrap_servers=options["bootstrap"],
        **security(options),
        compression_type=compression,
        enable_idempotence=True,
        linger_ms=5,
    )


async def produce(options: dict[str, str]) -> int:
    """0 if every line of stdin was acknowledged."""
    producers = {
        topic: producer_of(codec, options) for codec, topic in lines.topics(options).items()
    }
    for producer in producers.values():
        await producer.start()
    loop = asyncio.get_running_loop()
    sent = []
    while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
        key, value = lines.keyed_line(line)
        for topic, producer in producers.items():
            sent.append(await producer.send(topic, key=key, value=value))
    for producer in producers.values():
        await producer.stop()
    results = await asyncio.gather(*sent, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        print(f"{len(failed)} failed: {failed[:3]}", file=sys.stderr)
    return 1 if failed else 0


def main() -> int:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    mode, options = lines.arguments()
    if mode == "produce":
        return asyncio.run(produce(options))
    asyncio.run(run_member(options))
    return 0


async def run_member(options: dict[str, str]) -> None:
    await Member(options).run()


if __name__ == "__main__":
    sys.exit(main())
