"""confluent-kafka (librdkafka) as a group member or a producer; see lines.py."""

import sys
import time
from typing import Any

import lines
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

QUICK = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500, "log_level": 3}


def security(options: dict[str, str]) -> dict[str, Any]:
    if "certificate" in options:
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": options["cafile"],
            "ssl.certificate.location": options["certificate"],
            "ssl.key.location": options["certificate"],
        }
    if "mechanism" not in options:
        return {}
    login: dict[str, Any] = (
        {"oauth_cb": lambda _: (options["secret"], time.time() + 600)}
        if options["mechanism"] == "OAUTHBEARER"
        else {"sasl.username": options["username"], "sasl.password": options["secret"]}
    )
    return login | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": options["mechanism"],
        "ssl.ca.location": options["cafile"],
    }


class Member:
    def __init__(self, options: dict[str, str]) -> None:
        self.until_stall = int(options.get("stall_after", "0"))
        self.stall_s = int(options.get("stall", "0")) / 1000
        self.owned: set[tuple[str, int]] = set()
        self.member: dict[str, Any] = {}
        self.pending: dict[tuple[str, int], int] = {}
        self.consumer = Consumer(
            {
                **QUICK,
                **security(options),
                "bootstrap.servers": options["bootstrap"],
                "group.id": options["group"],
                "client.id": options["client"],
                **self._group(options),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 200,
                **({"group.instance.id": options["instance"]} if "instance" in options else {}),
            }
        )
        self.cooperative = "protocol" in options or options["assignor"].startswith("cooperative")
        self.consumer.subscribe(
            options["topics"].split(","),
            on_assign=self.on_assign,
            on_revoke=self.on_revoke,
            on_lost=self.on_lost,
        )

    @staticmethod
    def _group(options: dict[str, str]) -> dict[str, str | int]:
        """What the server decides in the consumer protocol is no setting there."""
        if "protocol" in options:
            return {"group.protocol": options["protocol"]}
        return {
            "partition.assignment.strategy": options["assignor"],
            "max.poll.interval.ms": int(options.get("poll_interval", "300000")),
            "session.timeout.ms": int(options["session"]),
            "heartbeat.interval.ms": int(options["heartbeat"]),
        }

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        (consumer.incremental_assign if self.cooperative else consumer.assign)(partitions)
        self.owned |= {(added.topic, added.partition) for added in partitions}
        self.member = self.identity()
        lines.owns(self.owned, **self.member)

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.commit()
        self.on_lost(consumer, partitions)

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {(gone.topic, gone.partition) for gone in partitions}
        self.pending = {at: offset for at, offset in self.pending.items() if at in self.owned}
        if self.cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        lines.owns(self.owned, **self.member)

    def identity(self) -> dict[str, Any]:
        # librdkafka's layout: a magic of 7 bytes, the generation as int32, strings
        metadata = bytes(self.consumer.consumer_group_metadata() or bytes(11))
        generation = int.from_bytes(metadata[7:11], sys.byteorder, signed=True)
        return {"member": self.consumer.memberid(), "generation": generation}

    def commit(self) -> None:
        if not self.pending:
            return
        offsets = dict(self.pending)
        wanted = [
            TopicPartition(topic, partition, offset)
            for (topic, partition), offset in offsets.items()
        ]
        try:
            results = self.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            lines.say("failed", what=f"commit: {error}")
            return
        if failed := [result for result in results if result.error]:
            lines.say("failed", what=f"commit: {failed}")
            return
        lines.committed(offsets)
        self.pending = {
            at: offset for at, offset in self.pending.items() if offsets.get(at) != offset
        }

    def process(self, messages: list[Message]) -> None:
        batches: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            if message.error():
                lines.say("failed", what=f"poll: {message.error()}")
            else:
                batches.setdefault(
                    (str(message.topic()), int(message.partition() or 0)), []
                ).append(message)
        for (topic, partition), batch in batches.items():
            offsets = [int(message.offset() or 0) for message in batch]
            lines.records(topic, partition, offsets, [message.value() for message in batch])
            self.pending[topic, partition] = offsets[-1] + 1

    def stall(self, records: int) -> None:
        if self.until_stall > 0:
            self.until_stall -= records
            if self.until_stall <= 0:
                time.sleep(self.stall_s)

    def run(self) -> None:
        wish = lines.Wish()
        while not wish.leave:
            messages = self.consumer.consume(500, 0.1)
            self.process(messages)
            self.commit()
            self.stall(len(messages))
        self.consumer.close()
        lines.say("left")


def produce(options: dict[str, str]) -> int:
    """0 if every line of stdin was acknowledged."""
    failures: list[object] = []
    settings = {
        **QUICK,
        **security(options),
        "bootstrap.servers": options["bootstrap"],
        "enable.idempotence": True,
        "linger.ms": 5,
        "on_delivery": lambda error, _message: failures.append(error) if error else None,
    }
    producers = {
        topic: Producer({**settings, "compression.type": codec})
        for codec, topic in lines.topics(options).items()
    }
    for line in sys.stdin.buffer:
        key, value = lines.keyed_line(line)
        for topic, producer in producers.items():
            producer.produce(topic, key=key, value=value)
            producer.poll(0)
    left = sum(producer.flush(60) for producer in producers.values())
    if left or failures:
        print(f"{left} never acknowledged, failures: {failures[:3]}", file=sys.stderr)
    return 1 if left or failures else 0


def main() -> int:
    mode, options = lines.arguments()
    if mode == "produce":
        return produce(options)
    Member(options).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
