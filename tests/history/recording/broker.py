"""The broker whose log is recorded, and copies of its segments."""

import shutil
import signal
import time
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from interop.observer import Observer
from interop.processes import PATIENCE_S
from interop.targets import ApacheKafka
from interop.tools import GROUPS, Tools
from peers.kafka import free_port

OFFSETS = "__consumer_offsets"
LOG_PARTITIONS = 4
RETENTION_MS = 60_000
"""The least that Kafka takes."""
SESSION_MS = 10_000
"""A busy machine must not end it."""
SETTINGS = {
    "offsets.topic.num.partitions": str(LOG_PARTITIONS),
    "offsets.retention.minutes": str(RETENTION_MS // 60_000),
    # Longer than a run of the cleaner, during which nothing may be appended.
    "offsets.retention.check.interval.ms": "30000",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "transaction.partition.verification.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "300",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "num.network.threads": "2",
    "num.io.threads": "2",
}
COMPACTING = {
    "segment.ms": "8000",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    # Tombstones go with the second run that sees them.
    "delete.retention.ms": "1000",
}
RESTING = COMPACTING | {"min.compaction.lag.ms": str(2**60)}
"""No record gets so old: the cleaner leaves all alone."""
CHECKPOINT = "cleaner-offset-checkpoint"


class RecordedBroker:
    """Apache Kafka; its cleaner rests but in `compact`."""

    def __init__(self) -> None:
        self._node = ApacheKafka(free_port(neighbours=1), SETTINGS)
        self.address = self._node.address
        self.tools = Tools()
        self._node.warm_up()
        self._configure(RESTING)

    def _configure(self, configs: dict[str, str]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, OFFSETS, configs)])
        admin.close()

    def topic_id(self, topic: str) -> str:
        """The id in the text form of a UUID."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        (described,) = admin.describe_topics([topic])
        admin.close()
        return str(described["topic_id"])

    def groups_tool(self, *flags: str) -> str:
        """The output of kafka-consumer-groups with these flags."""
        return self.tools.run(GROUPS, "--bootstrap-server", self.address, *flags)

    def ends(self) -> dict[int, int]:
        """The end offset of each log partition."""
        ends = Observer(self.address).ends(OFFSETS, LOG_PARTITIONS)
        return {number: ends.get(f"{OFFSETS}-{number}", 0) for number in range(LOG_PARTITIONS)}

    def compact(self) -> None:
        """Let the cleaner run until it has cleaned all but the active segments."""
        self._configure(COMPACTING)
        deadline, clean = time.monotonic() + PATIENCE_S, self.cleaned()
        stable_since = time.monotonic()
        while not (self._has_cleaned_closed_segments() and time.monotonic() - stable_since > 4):
            assert time.monotonic() < deadline, f"the cleaner has only come to {clean}"
            time.sleep(0.25)
            if (now := self.cleaned()) != clean:
                clean, stable_since = now, time.monotonic()
        self._configure(RESTING)

    def _has_cleaned_closed_segments(self) -> bool:
        clean = self.cleaned()
        return all(
            clean.get(number, 0) == int(segments[-1].stem)
            for number, segments in self._segments().items()
        )

    def _segments(self) -> dict[int, list[Path]]:
        return {
            number: sorted((self._node.data / f"{OFFSETS}-{number}").glob("*.log"))
            for number in range(LOG_PARTITIONS)
        }

    def cleaned(self) -> dict[int, int]:
        """First offset behind the cleaned part, by log partition."""
        return read_checkpoint(self._node.data / CHECKPOINT)

    def copy(self, target: Path) -> None:
        """Copy all segments, and the cleaner's checkpoint. Nothing may be appended meanwhile."""
        for number, segments in self._segments().items():
            directory = target / f"{OFFSETS}-{number}"
            directory.mkdir(parents=True)
            for segment in segments:
                shutil.copy(segment, directory)
        if (self._node.data / CHECKPOINT).exists():
            shutil.copy(self._node.data / CHECKPOINT, target)

    def dump(self, whole: Path) -> str:
        """DumpLogSegments of these segments."""
        files = sorted(whole.glob(f"{OFFSETS}-*/*.log"))
        return "".join(
            self.tools.run(
                "org.apache.kafka.tools.DumpLogSegments",
                *("--offsets-decoder", "--print-data-log", "--files", str(file)),
            ).replace(f"{whole}/", "")
            for file in files
        )

    def restart(self) -> None:
        self._node.restart(signal.SIGTERM)
        self._node.warm_up()

    def shut_down(self) -> None:
        """Stop in good order; the data stays until `stop`."""
        self._node.process.send_signal(signal.SIGTERM)
        self._node.process.wait(PATIENCE_S)

    def stop(self) -> None:
        self.tools.close()
        self._node.stop()


def read_checkpoint(file: Path) -> dict[int, int]:
    """First offset that the cleaner has not come to, by log partition."""
    if not file.exists():
        return {}
    lines = [line.split() for line in file.read_text().splitlines()[2:]]
    return {int(number): int(offset) for topic, number, offset in lines if topic == OFFSETS}
