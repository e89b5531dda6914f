"""Kohort's own client as a transactional producer: its arguments and steps are those of
TransactionProgram.java.
"""

import os
import sys

import kio_alone  # noqa: F401  before all that imports kio

from kohort.client import ClientConfig, GroupMetadata, KohortError, TopicPartition
from kohort.client.sync import Producer


class Steps:
    def __init__(self, address: str, transactional_id: str, timeout_ms: str) -> None:
        self._producer = Producer(
            ClientConfig(bootstrap=address, retry_backoff_max_ms=500),
            transactional_id=transactional_id,
            transaction_timeout_ms=int(timeout_ms),
        )

    def init(self) -> None:
        self._producer.__enter__()

    def begin(self) -> None:
        self._transaction = self._producer.transaction()
        self._transaction.__enter__()

    def send(self, topic: str, partition: str, value: str) -> None:
        self._producer.send_and_wait(topic, value.encode(), key=b"k", partition=int(partition))

    def offsets(self, group: str, topic: str, partition: str, offset: str) -> None:
        self._transaction.commit_offsets(
            {TopicPartition(topic, int(partition)): int(offset)}, GroupMetadata(group_id=group)
        )

    def commit(self) -> None:
        self._transaction.__exit__(None, None, None)

    def abort(self) -> None:
        self._transaction.abort()
        self._transaction.__exit__(None, None, None)


steps = Steps(*sys.argv[1:])
for line in sys.stdin:
    step, *words = line.split()
    try:
        getattr(steps, step)(*words)
        print("done", flush=True)
    except KohortError as error:
        print(type(error).__name__, flush=True)
os._exit(0)
