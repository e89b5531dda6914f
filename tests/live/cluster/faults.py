"""What is done to the nodes of a cluster and to their database."""

import asyncio
import random
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from kohort.cluster import LEASE_MS
from live.cluster.database import Database
from live.cluster.nodes import NODES, Nodes

AWAY_SECONDS = (0.0, 6.0)
"""How long a node is away that was killed."""
HANGS_SECONDS = (LEASE_MS / 1000 + 1, LEASE_MS / 1000 + 5)
DATABASE_AWAY_SECONDS = (0.0, 3.0)
MOVES = 4
REFUSED = ("was called off", "there is no node")
"""Of commands for a node that was just started again, or has lost its lease on a busy machine."""

Fault: TypeAlias = Callable[["Faults"], Coroutine[None, None, None]]


@dataclass
class Faults:
    """Each returns when it is over; only nodes that were killed may still be away."""

    nodes: Nodes
    database: Database
    rng: random.Random
    violation: Callable[[str], None]
    """Called with what went wrong."""
    topics: Mapping[str, int]
    """Topics of which partitions are moved, and how many those are."""
    killed: Callable[[], None]
    """Called for each node that is killed."""

    async def kill(self) -> None:
        """Kill a node, and start it again after a while."""
        node = self.rng.choice(self.nodes.running)
        await self._kill(node)
        await asyncio.sleep(self.rng.uniform(*AWAY_SECONDS))
        self.nodes.start(node)

    async def kill_several(self) -> None:
        """Kill two or three nodes one after the other."""
        nodes = self.rng.sample(NODES, self.rng.choice((2, 2, 3)))
        for node in nodes:
            await self._kill(node)
            await asyncio.sleep(self.rng.uniform(0, 1))
        self.rng.shuffle(nodes)
        for node in nodes:
            self.nodes.start(node)
            await asyncio.sleep(self.rng.uniform(0, 1))

    async def kill_starting(self) -> None:
        """Kill a node again while it starts."""
        node = self.rng.choice(self.nodes.running)
        await self._kill(node)
        self.nodes.start(node)
        await asyncio.sleep(self.rng.uniform(0, 3))
        await self._kill(node)
        self.nodes.start(node)

    async def _kill(self, node: int) -> None:
        await asyncio.to_thread(self.nodes.end, node, signal.SIGKILL)
        self.killed()

    async def hang(self) -> None:
        """Stop a node for longer than its lease."""
        node = self.rng.choice(self.nodes.running)
        self.nodes.hang(node)
        await asyncio.sleep(self.rng.uniform(*HANGS_SECONDS))
        self.nodes.go_on(node)

    async def terminate(self) -> None:
        """Terminate backends in flight, a few times in a row."""
        for _ in range(self.rng.randint(1, 4)):
            share = self.rng.choice((0.1, 0.3, 1.0))
            await asyncio.to_thread(self.database.terminate_backends, share)
            await asyncio.sleep(self.rng.uniform(0, 0.5))

    async def lose_lock(self) -> None:
        """Have the others take a node for gone that goes on."""
        node = self.rng.choice(self.nodes.running)
        await asyncio.to_thread(self.database.keep_unlocked, node)

    async def restart_database(self) -> None:
        how = self.rng.choice((signal.SIGINT, signal.SIGQUIT, signal.SIGKILL))
        away = self.rng.uniform(*DATABASE_AWAY_SECONDS)
        await asyncio.to_thread(self.database.restart, how, away)

    async def promote(self) -> None:
        how = self.rng.choice((signal.SIGINT, signal.SIGQUIT, signal.SIGKILL))
        await asyncio.to_thread(self.database.promote, how)

    async def move(self) -> None:
        """Move a few partitions by the command of an operator."""
        await asyncio.to_thread(self.nodes.await_listening)
        for _ in range(MOVES):
            topic, partitions = self.rng.choice([*self.topics.items()])
            partition, to = self.rng.randrange(partitions), self.rng.choice(self.nodes.running)
            await self._command("move", topic, str(partition), str(to))

    async def drain(self) -> None:
        """Drain a node, and restart it, as for an upgrade."""
        await asyncio.to_thread(self.nodes.await_listening)
        node = self.rng.choice(self.nodes.running)
        await self._command("drain", str(node))
        await self._restart(node)

    async def terminate_node(self) -> None:
        """Have a node end in order, and start it again."""
        await self._restart(self.rng.choice(self.nodes.running))

    async def _restart(self, node: int) -> None:
        code = await asyncio.to_thread(self.nodes.end, node, signal.SIGTERM)
        if code not in (0, -signal.SIGTERM):  # the latter before it has begun
            self.violation(f"node {node} ended with {code} after SIGTERM")
        self.nodes.start(node)

    async def _command(self, *words: str) -> None:
        done = await asyncio.to_thread(self.nodes.command, *words)
        if done.returncode and not any(each in done.stderr for each in REFUSED):
            self.violation(f"kohort nodes {' '.join(words)} failed: {done.stderr}")

    KINDS: ClassVar[dict[Fault, int]] = {
        kill: 10,
        kill_several: 2,
        kill_starting: 2,
        hang: 2,
        terminate: 3,
        lose_lock: 1,
        restart_database: 2,
        promote: 1,
        move: 2,
        drain: 1,
        terminate_node: 1,
    }
    """How often each of them comes, compared with the others."""

    def deck(self, *, each_once: bool = False) -> list[Fault]:
        """All of them in random order, each as often as it comes."""
        kinds = [kind for kind, count in self.KINDS.items() for _ in range(count)]
        deck = [*self.KINDS] if each_once else kinds
        self.rng.shuffle(deck)
        return deck
