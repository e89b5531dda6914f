"""Keeps what a node leads as the metadata log says, and the log as the nodes are.

A node renews its lease, reads on, appends what is decided (`kohort.cluster.decide`), and takes and
gives up partitions. Every node does so, and the log takes only decisions that were made on all of
it. A node whose lease is over by its own clock leads nothing: others may have what it led.

A partition that is planned to move is read by the node that is to lead it, while the leader serves
it. That node logs that it is ready; then the leader lets go of the partition, and logs who leads it
next. Who asks for it in between is told to look for the leader, for some milliseconds. If the next
leader is not ready in time, or has lost what it read, it reads all of it afterwards. A leader that
is gone is replaced as ever.
"""

import asyncio
import logging
from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

from kohort.cluster import (
    LEASE_MS,
    MOVES_AT_ONCE,
    NO_LEADER,
    Endpoint,
    FencedError,
    HistoryLostError,
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRegistered,
    Observed,
    Place,
    ReassignmentPlanned,
    SharedStorage,
    Situation,
    UnknownOutcomeError,
    decide,
    situation,
)
from kohort.errors import KafkaError, KohortError, fresh
from kohort.runtime.clock import Clock
from kohort.server.cluster.joining import this_machine
from kohort.server.cluster.node_status import NodeNews, NodeStatus
from kohort.server.logging import fields
from kohort.server.topics import MetadataRecord, SharedMetadata, SharedTopics
from kohort.types import Instant, Timestamp, TopicPartition
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.cluster")

TICK_S: Final = 0.5
"""Time between two ticks at most; what is logged by others wakes a node at once."""
LOOKS_EVERY_S: Final = 0.2
"""Time between two looks at the other nodes: one that is gone is replaced so soon."""
OWN_LEASE_MS: Final = LEASE_MS * 99 // 100
"""The lease as its node counts it: the rates of two clocks differ by less than that."""
READY_WITHIN_MS: Final = 60_000
"""Time that the next leader of a partition has to read it; then it gets the partition as it is."""
PRODUCER_TRANSITION_MS: Final = 30_000 + LEASE_MS
"""Time in which a batch comes again that was on its way to the former leader of a partition.

A leader that hangs has it for the `request.timeout.ms` of Kafka's producers. A client with older
metadata may still ask that one later: its next batch is then taken first, as in Kafka.
"""
SETTLED_AT_ONCE: Final = 5_000
"""Partitions: the others wait for the next tick."""
SAID_EVERY_MS: Final = 200
"""Time between two records by which a node says what it has read, if it reads more."""
PARTITIONS_PER_MS: Final = 100
"""Partitions for which decisions are a millisecond apart: each looks at all of them.

The log grows many times a second while thousands of topics are created.
"""
_TAKEN_AT_ONCE: Final = 100
_BEGUN_AT_ONCE: Final = 20
"""Partitions that are let go of in one turn of the event loop: each takes up to 1 ms."""
_RENEW: Final = "renew its lease"
_WORK: Final = "follow the cluster"
_FAILURES: Final = (OSError, UnknownOutcomeError, TimeoutError)


class Ownership:
    """What one node leads."""

    def __init__(
        self,
        storage: SharedStorage,
        metadata: SharedMetadata,
        topics: SharedTopics,
        clock: Clock,
        *,
        endpoints: Sequence[Endpoint],
        rack: str | None,
        settled_after_ms: int,
        drained_within_ms: int,
        claimed_at: Instant,
        can_connect: bool = True,
        looked: Callable[[Mapping[int, NodeRegistered]], None] = lambda _: None,
    ) -> None:
        """`settled_after_ms` is that of `decide`, `drained_within_ms` that of `leave`.

        `claimed_at`: when the storage was asked for the session, by the node's own clock.
        `can_connect` is that of `NodeRegistered`. `looked` is called with the nodes of the cluster
        whenever they may be others.
        """
        self._storage = storage
        self._metadata = metadata
        self._topics = topics
        self._clock = clock
        self._endpoints = tuple(endpoints)
        self._rack = rack
        self._can_connect = can_connect
        self._settled_after_ms = settled_after_ms
        self._drained_within_ms = drained_within_ms
        self._leased_at = claimed_at
        """When the lease was asked for last, and given."""
        self._has_session = True
        self._sessions = 1
        self._away_since: Instant | None = None
        self._troubles: dict[str, str] = {}
        """Why this node cannot take part, by what it cannot do."""
        self._news = NodeNews(storage.node_id)
        self._looked = looked
        self._renewed = asyncio.Event()
        """Set when the lease was renewed, or all was given up."""
        self._untaken: str | None = None
        """Why something that is to be led cannot be read."""
        self._nothing_for: tuple[int, Situation] | None = None
        """End of the metadata log and situation of the nodes where nothing was to be decided."""
        self._decided_at = Instant(0)
        """When nothing was to be decided, after a look at all partitions."""
        self._agreed: tuple[int, bool, int, int] | None = None
        """Where this node led what the log says: its end, the lease, and what came and went."""
        self._again = asyncio.Event()
        """Set when there is something to decide on."""
        self._has_worked = False
        """Whether this node has once led all that it had to lead."""
        self._worked = asyncio.Event()
        """Set whenever `work` has ended."""
        self._planned: dict[tuple[Place, int], Instant] = {}
        """Moves of what is led here, and since when they are known."""
        self._new: dict[TopicPartition, Instant] = {}
        """Since when partitions are led here, the latest last; those that are not settled yet."""
        self._said_at = claimed_at
        """When this node said last what it has read."""
        self._is_draining = False
        """Whether it is to lead nothing any more: it ends, or an operator drains it."""
        self._running: list[asyncio.Task[None]] = []
        metadata.on_change = self._again.set

    # Running

    def start(self, lost: Callable[[], object]) -> None:
        """Keep the lease, and do what there is to do, from now on.

        `lost` is called if that cannot go on: a record cannot be read.
        """
        self._running = [
            asyncio.create_task(self._keep_lease()),
            asyncio.create_task(self._keep_working()),
            asyncio.create_task(self._keep_looking()),
        ]
        for task in self._running:
            task.add_done_callback(partial(_ended, lost))

    async def begun(self) -> None:
        """Return when it was tried once to lead what the log says, or cannot be, after `start`."""
        worked = asyncio.create_task(self._worked.wait())
        try:
            await asyncio.wait((worked, *self._running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            worked.cancel()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self.renew()

    async def _keep_looking(self) -> None:
        """Decide at once when a node is gone; the rest of a tick costs more than a look."""
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            with suppress(FencedError, *_FAILURES):
                nodes = self._metadata.state.cluster.nodes.values()
                if len(nodes) == 1 and self._is_registered:
                    continue
                observed = await self._storage.observe()
                if any(observed.is_gone(each.id, each.session) for each in nodes):
                    self._again.set()

    async def _keep_working(self) -> None:
        while True:
            await self.work()
            await self._rest()

    async def _rest(self) -> None:
        """Wait for something to do, at most `TICK_S`."""
        grown = asyncio.create_task(self._storage.wait_beyond(self._metadata.end_offset))
        changed = asyncio.create_task(self._again.wait())
        try:
            await asyncio.wait(
                (grown, changed), timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (grown, changed):
                task.cancel()
        if grown.done() and not grown.cancelled() and grown.exception() is not None:
            await asyncio.sleep(TICK_S)  # the storage is away: the next tick tells it

    async def tick(self) -> None:
        """`renew` and `work`, once."""
        await self.renew()
        await self.work()

    async def renew(self) -> None:
        """Renew the lease, with a new session if the former one is over.

        Without a lease, lead nothing. Failures of the storage are logged. Raises HistoryLostError.
        """
        asked_at = self._clock.now()
        left_ms = self._leased_at + OWN_LEASE_MS - asked_at
        try:
            async with asyncio.timeout((left_ms if left_ms > 0 else LEASE_MS) / 1_000):
                if self._has_session:
                    await self._storage.renew()
                else:
                    await self._storage.claim()
                    self._sessions += 1
            self._has_session = True
            self._leased_at = asked_at
            self._away_since = None
            self._tell(_RENEW)
        except HistoryLostError:
            raise  # what this process knows is not so
        except (KohortError, *_FAILURES) as error:
            if isinstance(error, FencedError):
                self._has_session = False
            if not isinstance(error, KohortError) and self._away_since is None:
                self._away_since = asked_at
            self._tell(_RENEW, error)
        if not self._has_lease:
            await self._resign()
        self._renewed.set()

    @property
    def may_answer(self) -> bool:
        """Whether no other node can have taken what this one leads.

        A process that was stopped for longer than its lease finds requests before that.
        """
        return self._has_lease or not self._topics.led

    async def settled(self) -> None:
        """Return when this node may answer: the lease is renewed, or nothing is led here."""
        while not self.may_answer:
            self._renewed.clear()
            await self._renewed.wait()

    @property
    def _has_lease(self) -> bool:
        return self._has_session and self._clock.now() < self._leased_at + OWN_LEASE_MS

    def status(self) -> NodeStatus:
        """This node at this moment."""
        now, topics = self._clock.now(), self._topics
        since = now if self._away_since is None else self._away_since
        return NodeStatus(
            nodes=len(self._metadata.state.cluster.nodes),
            led=topics.led_by_kind(),
            awaited=max(len(self._led_places()) - len(topics.led), 0),
            taken=topics.taken,
            given_up=topics.given_up,
            has_lease=self._has_lease,
            is_registered=self._is_registered and self._has_worked,
            lease_age_s=(now - self._leased_at) / 1_000,
            sessions=self._sessions,
            away_s=(now - since) / 1_000,
            trouble=next(iter(self._troubles.values()), None),
        )

    def _tell(self, what: str, error: Exception | None = None) -> None:
        """Log why this node cannot do `what`, once until that changes; None: it can."""
        told = {*self._troubles.values()}
        self._troubles.pop(what, None)
        if error is not None:
            trouble = self._troubles[what] = str(error) or "the database does not respond"
            if trouble not in told:
                logger.error("this node cannot take part in the cluster", extra=fields(why=trouble))
        elif told and not self._troubles:
            logger.info("this node takes part in the cluster again")

    async def work(self) -> None:
        """Decide on the cluster, and lead what its log says. Failures are logged."""
        self._again.clear()
        self._settle()
        if not self._has_lease:
            return
        try:
            # First what others wait for: that this node leads what it was given.
            await self._metadata.read_news()
            await self._agree()
            known = set(self._metadata.state.cluster.nodes.values())
            observed = await self._storage.observe()
            while self._is_due(observed) and await self._metadata.decide_in_slices(
                partial(self._decide, observed, known)
            ):
                await self._agree()
            await self._agree()
            await self._stand_by()
            await self._hand_over()
            if self._metadata.state.cluster.controller_id == self._node_id:
                await self._metadata.compact()
            self._has_worked = True
            self._tell(_WORK)
        except FencedError as error:
            self._has_session = False
            self._tell(_WORK, error)
        except _FAILURES as error:
            self._tell(_WORK, error)
        finally:
            nodes = self._metadata.state.cluster.nodes
            self._news.look(nodes)
            self._looked(nodes)
            self._worked.set()
        if not self._has_lease:
            await self._resign()

    # Deciding

    def _is_due(self, observed: Observed) -> bool:
        """Whether to decide now; if not, `work` is done again when it is time."""
        cluster = self._metadata.state.cluster
        nodes, now = cluster.nodes.values(), self._clock.now()
        is_calm = self._is_registered and not (
            cluster.moves
            or any(each.is_draining or observed.is_gone(each.id, each.session) for each in nodes)
        )
        left_ms = self._decided_at + len(cluster.leaders) // PARTITIONS_PER_MS - now
        if is_calm and left_ms > 0:
            asyncio.get_running_loop().call_later(left_ms / 1_000, self._again.set)
            return False
        return True

    def _decide(
        self, observed: Observed, known: Collection[NodeRegistered]
    ) -> Generator[None, None, Sequence[MetadataRecord]]:
        """`known`: the nodes that were registered when `observed` was seen."""
        if not self._is_registered:
            return [*self._led_anew(), self._registration(observed.now)]
        cluster = self._metadata.state.cluster
        self._is_draining |= cluster.nodes[self._node_id].is_draining
        newcomers = [each for each in cluster.nodes.values() if each not in known]
        seen = observed.with_newcomers(newcomers)
        nodes = situation(cluster, seen, self._settled_after_ms)
        if self._node_id in nodes.gone:
            return ()  # it renews its lease before it decides on anybody
        at = self._metadata.end_offset, nodes
        if at == self._nothing_for:
            return ()
        topics = yield from self._topics.spread()
        decided = yield from decide(cluster, topics, nodes)
        self._nothing_for = None if decided else at
        if not decided:
            self._decided_at = self._clock.now()
        return decided

    def _led_anew(self) -> Iterable[LeaderChanged]:
        """What this node led before its session, in epochs of its own.

        Records of an epoch are in one session: the storage may have lost the end of the former.
        """
        cluster = self._metadata.state.cluster
        for place in cluster.led_by(self._node_id):
            yield LeaderChanged(place, Leader(self._node_id, cluster.leaders[place].epoch + 1))

    def _registration(self, now: Timestamp) -> NodeRegistered:
        node, session = self._storage.node_id, self._storage.session
        return NodeRegistered(
            *(node, session, self._endpoints, now, self._rack),
            machine=this_machine(),
            is_draining=self._is_draining,
            can_connect=self._can_connect,
        )

    @property
    def _is_registered(self) -> bool:
        known = self._metadata.state.cluster.nodes.get(self._storage.node_id)
        return known is not None and known.session == self._storage.session

    # Leading

    async def _agree(self) -> None:
        """Lead what the log says, and nothing else. Raises OSError."""
        topics = self._topics
        end_offset = self._metadata.end_offset
        if self._agreed == (end_offset, self._has_lease, topics.taken, topics.given_up):
            return
        slices, mine = TimeSlices(), dict[TopicPartition, int]()
        wanted, led = [], topics.led
        for place, epoch in self._led_places():
            partition = topics.partition_of(place)
            if partition is not None:
                mine[partition] = epoch
                if led.get(partition) != epoch:
                    wanted.append((place, epoch))
            await slices.give_way()
        others = [each for each, epoch in led.items() if mine.get(each) != epoch]
        await self._give_up(others)
        failures: list[Exception] = []
        for start in range(0, len(wanted), _TAKEN_AT_ONCE):
            some = wanted[start : start + _TAKEN_AT_ONCE]
            await _all(self._take(place, epoch, failures) for place, epoch in some)
        untaken = str(failures[0]) if failures else None
        if untaken not in (None, self._untaken):
            told = fields(partitions=len(failures), why=untaken)
            logger.error("partitions cannot be read yet, which is tried again", extra=told)
        self._untaken = untaken
        # Fewer are led if the lease was over meanwhile.
        if not failures and len(led) == len(mine):
            self._agreed = end_offset, self._has_lease, topics.taken, topics.given_up

    async def _take(self, place: Place, epoch: int, failures: list[Exception]) -> None:
        """Lead a partition. If it cannot be read, the others are led all the same."""
        try:
            await self._topics.take(place, epoch)
        except (OSError, KafkaError) as error:
            failures.append(error.with_traceback(None))
            return
        if (partition := self._topics.partition_of(place)) is not None:
            self._new.pop(partition, None)
            self._new[partition] = self._clock.now()

    def _settle(self) -> None:
        """What is led for long enough has nothing on its way to the former leader any more."""
        now = self._clock.now()
        old = takewhile(lambda each: now - each[1] >= PRODUCER_TRANSITION_MS, self._new.items())
        for partition, _ in list(islice(old, SETTLED_AT_ONCE)):
            del self._new[partition]
            self._topics.settle(partition)

    def _led_places(self) -> Sequence[tuple[Place, int]]:
        """What this node leads in its present session, with the epochs."""
        if not (self._is_registered and self._has_lease):
            return ()
        leaders = self._metadata.state.cluster.leaders.items()
        return [(place, epoch) for place, (node, epoch) in leaders if node == self._node_id]

    @property
    def _node_id(self) -> int:
        return self._storage.node_id

    async def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises OSError if what was appended to one of them last is not known to be written."""
        await _all(self._topics.give_up(each) for each in partitions)

    async def _resign(self) -> None:
        """Lead nothing: what the storage has of it, others may have taken."""
        with suppress(*_FAILURES):
            await self._give_up(tuple(self._topics.led))

    # Handing over

    async def _stand_by(self) -> None:
        """Read what this node is to lead next, and say what of it is read.

        Raises as `SharedMetadata.decide`.
        """
        coming = self._coming()
        wanted = {self._topics.partition_of(place) for place in coming}
        for partition in self._topics.standbys.keys() - wanted:
            self._topics.stand_down(partition)
        for place in coming:
            self._topics.stand_by(place, self._again.set)
        for log in self._topics.standbys.values():
            log.look()
        read, now = self._read(), self._clock.now()
        unread = len(coming) - len(self._metadata.state.cluster.ready.intersection(coming))
        if read and (len(read) == unread or now - self._said_at >= SAID_EVERY_MS):
            self._said_at = now
            await self._metadata.decide(self._read)

    def _coming(self) -> list[Place]:
        """What this node is to lead next, and others lead now."""
        cluster = self._metadata.state.cluster
        return [
            place
            for place, to in cluster.moves.items()
            if to == self._node_id and cluster.leader(place).node not in (to, NO_LEADER)
        ]

    def _read(self) -> Sequence[MetadataRecord]:
        """The records of what this node has read, and has not said so."""
        known = self._metadata.state.cluster.ready
        read = {each for each, log in self._topics.standbys.items() if log.is_ready}
        return [
            ReassignmentPlanned(place, self._node_id, is_ready=True)
            for place in self._coming()
            if place not in known and self._topics.partition_of(place) in read
        ]

    async def _hand_over(self) -> None:
        """Let go of partitions that their next leaders have read.

        Raises as `SharedMetadata.decide`.
        """
        due = self._due()
        moving = due[:MOVES_AT_ONCE]
        if not moving:
            return
        if len(moving) < len(due):
            self._again.set()
        found = (self._topics.partition_of(place) for place, _ in moving)
        await self._give_up([each for each in found if each is not None])
        # Nobody serves them until that is logged.
        handed_over = partial(self._handed_over, moving)
        goes_on = await self._metadata.decide(handed_over, reads=False)
        while goes_on:
            goes_on = await self._metadata.decide(handed_over)
        await self._agree()

    def _due(self) -> list[tuple[Place, int]]:
        """The partitions to let go of, with their next leaders."""
        cluster, now = self._metadata.state.cluster, self._clock.now()
        self._planned = {
            move: self._planned.get(move, now)
            for move in cluster.moves.items()
            if cluster.leader(move[0]).node == self._node_id
        }
        return [
            move
            for move, since in self._planned.items()
            if move[0] in cluster.ready or now - since >= READY_WITHIN_MS
        ]

    def _handed_over(self, moving: Iterable[tuple[Place, int]]) -> Sequence[MetadataRecord]:
        """The records by which others lead what was let go of."""
        cluster = self._metadata.state.cluster
        return [
            LeaderChanged(place, Leader(to, cluster.leaders[place].epoch + 1))
            for place, to in moving
            if cluster.moves.get(place) == to and cluster.leader(place).node == self._node_id
        ]

    # The end

    async def leave(self) -> None:
        """Give up everything, have others lead it, and end the session. Idempotent.

        Until `drained_within_ms` is over, what they read goes to them as in any move.
        """
        if self._running and self._drained_within_ms:
            await self._drain()
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
        await self._resign()
        self._renewed.set()
        if running and self._has_session:
            with suppress(FencedError, *_FAILURES):
                async with asyncio.timeout(TICK_S):
                    # Who cannot read the log leaves without a word: others see the session end.
                    if all(isinstance(each, asyncio.CancelledError) for each in ended):
                        await self._metadata.decide(self._farewell)
                    await self._storage.release()

    async def _drain(self) -> None:
        self._is_draining = True
        with suppress(Exception):  # whatever fails, what is left is taken over
            async with asyncio.timeout(self._drained_within_ms / 1_000):
                await self._metadata.decide(self._draining)
                self._again.set()
                while self._topics.led and self._can_drain():
                    self._worked.clear()
                    await self._worked.wait()

    def _draining(self) -> Sequence[MetadataRecord]:
        if not (self._is_registered and self._can_drain()):
            return ()
        return [replace(self._metadata.state.cluster.nodes[self._node_id], is_draining=True)]

    def _can_drain(self) -> bool:
        """Whether there is another node that takes what this one leads, and this one works."""
        nodes = self._metadata.state.cluster.nodes.values()
        has_targets = any(not (each.is_draining or each.id == self._node_id) for each in nodes)
        return has_targets and not any(task.done() for task in self._running)

    def _farewell(self) -> Sequence[MetadataRecord]:
        return [NodeFenced(self._node_id)] if self._is_registered else ()


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Return when all of it is done. Raises a failure only then: nothing goes on unseen.

    So it is if it is cancelled, which cancels what was begun.
    """
    tasks: list[asyncio.Task[None]] = []
    try:
        for each in work:
            tasks.append(asyncio.create_task(each))
            if not len(tasks) % _BEGUN_AT_ONCE:
                await asyncio.sleep(0)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    for failure in ended:
        if failure is not None:
            raise fresh(failure)


def _ended(lost: Callable[[], object], task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the cluster cannot be followed; this process ends", exc_info=error)
        lost()
