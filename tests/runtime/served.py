"""A bench whose requests go to `Groups`, as handlers send them: the request id takes the answer."""

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.requests import TxnOffsetCommit
from kohort.errors import KafkaError
from kohort.runtime.groups import Groups
from kohort.testing.bench import Bench, Call
from runtime.fake_log import FakeLog
from runtime.virtual_time import LoopClock

NO_DELAY = GroupCoordinatorConfig(initial_rebalance_delay_ms=0)
RELOAD_AFTER_S = 5.0
"""How long a failed shard waits, in virtual time, before it is loaded again."""


class Served(Bench):
    """`logs` are the partitions of `__consumer_offsets`; calls are answered in a later turn of the
    loop.
    """

    def __init__(self, logs, config=NO_DELAY, **options):
        super().__init__(config)
        self.logs = logs
        self.clock = LoopClock()
        self.groups = Groups(logs, config, self.clock, reload_after_s=RELOAD_AFTER_S, **options)

    def _call(self, request):
        if isinstance(request, TxnOffsetCommit) and request.verified is None:
            request = replace(request, verified=self._verified(request))
        call = Call(request)
        self.groups.submit(replace(request, on_response=call.responses.append))
        return call

    def _verified(self, request):
        """The guard of a transaction that its coordinator knows, if the log is served."""
        producer = request.producer_id, request.producer_epoch
        with suppress(KafkaError, OSError):
            return self.groups.begin_verification(request.group, *producer)

    async def settled(self, group="g", members=1, **options):
        """As `stable`: the ids of the members, the leader's first."""
        ids = [(await answer(self.join(group, **options))).member_id for _ in range(members)]
        joins = [self.join(group, member_id, **options) for member_id in ids]
        leader = (await answer(joins[0])).leader
        ids.sort(key=lambda member_id: member_id != leader)
        for member_id in ids:
            assignments = {m: m.encode() for m in ids} if member_id == leader else {}
            await answer(self.sync(group, member_id, joins[0].response.generation, assignments))
        return ids


@asynccontextmanager
async def serving(*logs, **options):
    """Started, loaded, closed at the end."""
    served = Served(logs or (FakeLog(),), **options)
    served.groups.start()
    await served.groups.loaded()
    yield served
    await served.groups.close()


async def answer(call):
    """The answer, waited for in virtual time."""
    for _ in range(1_000):
        if not call.parked:
            return call.response
        await asyncio.sleep(0.01)
    raise AssertionError(f"never answered: {call}")
