"""Clients of a simulation, which report to its ledger."""

from typing import Any

from kohort.client import ConsumerGroup, Producer
from kohort.testing.simulation.ledger import Claim, Ledger
from kohort.testing.simulation.process import Process


class SimulatedGroup(ConsumerGroup[Any, Any]):
    """A `ConsumerGroup` whose generations are in the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        members: "dict[SimulatedGroup, Process]",
        process: Process,
        group_id: str,
        **options: Any,
    ) -> None:
        """It is one of `members` from the begin of its entry to its end."""
        super().__init__(group_id, **options)
        self.is_entered = False
        self._ledger = ledger
        self._members = members
        self._process = process

    async def __aenter__(self) -> "SimulatedGroup":
        self._members[self] = self._process
        try:
            await super().__aenter__()
        except BaseException:
            del self._members[self]
            raise
        self.is_entered = True
        return self

    async def close(self) -> None:
        self._members.pop(self, None)
        await super().close()

    async def _next(self) -> Any:
        generation = await super()._next()
        if generation is not None:
            self._claim(generation)
        return generation

    def _claim(self, generation: Any) -> None:
        owner = self.config.instance_id or f"{self._process.name} ({generation.member_id})"
        for partition in generation.assignment:
            ending = generation._owned(partition).ending
            claim = Claim(owner, lambda over=ending.over: self._process.has_ended or over.is_set())  # type: ignore[misc]
            self._ledger.claim(self.config.group_id, generation.id, partition, claim)


class SimulatedProducer(Producer[Any, Any]):
    """A `Producer` whose records are in the ledger, unless they may be doubled."""

    def __init__(self, ledger: Ledger, **options: Any) -> None:
        super().__init__(**options)
        self._ledger = ledger

    async def send(self, topic: str, value: Any, **options: Any) -> Any:
        """As `Producer.send`."""
        if self.config.is_idempotent and self._serializers is None:
            key = options.get("key")
            self._ledger.sent_records[topic, key, value] += 1
        return await super().send(topic, value, **options)
