"""kafka-python as a group member or a producer; see lines.py."""

import logging
import sys
from typing import Any

import lines
from kafka import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
QUICK = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 500}


class Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def security(options: dict[str, str]) -> dict[str, Any]:
    if "certificate" in options:
        return {
            "security_protocol": "SSL",
            "ssl_cafile": options["cafile"],
            "ssl_certfile": options["certificate"],
            "ssl_keyfile": options["certificate"],
        }
    if "mechanism" not in options:
        return {}
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
        "ssl_cafile": options["cafile"],
    }


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, options: dict[str, str]) -> None:
        self.pending: dict[TopicPartition, int] = {}
        self.topics = options["topics"].split(",")
        self.consumer = KafkaConsumer(
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
            **QUICK,
        )

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.commit()
        self.on_partitions_lost(revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.pending.clear()
        lines.owns([])

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        lines.owns(assigned)

    def commit(self) -> None:
        if not self.pending:
            return
        offsets = dict(self.pending)
        try:
            self.consumer.commit(
                {at: OffsetAndMetadata(offset, "", -1) for at, offset in offsets.items()}
            )
        except KafkaError as error:
            lines.say("failed", what=f"commit: {error!r}")
            return
        lines.committed({(at.topic, at.partition): offset for at, offset in offsets.items()})
        self.pending = {
            at: offset for at, offset in self.pending.items() if offsets.get(at) != offset
        }

    def process_some(self) -> None:
        for at, batch in self.consumer.poll(timeout_ms=100).items():
            lines.records(
                at.topic, at.partition, [r.offset for r in batch], [r.value for r in batch]
            )
            self.pending[at] = batch[-1].offset + 1

    def run(self) -> None:
        wish = lines.Wish()
        self.consumer.subscribe(self.topics, listener=self)
        for topic in self.topics:
            # kafka-python 3.0.12 may hang, with Apache Kafka too, if it leads a group before it
            # knows the topic.
            self.consumer.partitions_for_topic(topic)
        while not wish.leave:
            self.process_some()
            self.commit()
        self.consumer.close()
        lines.say("left")


def producer_of(codec: str, options: dict[str, str]) -> KafkaProducer:
    compression = None if codec == "none" else codec
    return KafkaProducer(
        bootstrap_servers=options["bootstrap"],
        compression_type=compression,
        linger_ms=5,
        **security(options),
        **QUICK,
    )


def produce(options: dict[str, str]) -> int:
    """0 if every line of stdin was acknowledged."""
    producers = {
        topic: producer_of(codec, options) for codec, topic in lines.topics(options).items()
    }
    sent = []
    for line in sys.stdin.buffer:
        key, value = lines.keyed_line(line)
        sent += [
            producer.send(topic, key=key, value=value) for topic, producer in producers.items()
        ]
    for producer in producers.values():
        producer.flush(60)
    failed = [repr(future.exception) for future in sent if not future.succeeded()]
    for producer in producers.values():
        producer.close()
    if failed:
        print(f"{len(failed)} failed: {failed[:3]}", file=sys.stderr)
    return 1 if failed else 0


def main() -> int:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    mode, options = lines.arguments()
    if mode == "produce":
        return produce(options)
    Member(options).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
