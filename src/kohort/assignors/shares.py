"""Fair shares: the number of partitions of each kind per member, balanced with the fewest moves.

Partitions that the same members may own, with replicas in the same racks, are alike. They form a
`Pool`, and only their number matters. The shares, in this order of importance,

1. are *balanced*: no other shares have more even loads (the best sorted loads are unique,
   and minimise every convex function of them);
2. let the fewest partitions be read across racks (KIP-881);
3. move the fewest partitions away from their owners.

That is a minimum-cost flow from pools over members to a sink, so no heuristic is needed. At first
every partition is with its cheapest member regardless of balance: its owner, or a member in the
rack of a replica. Members above the mean then push partitions along the cheapest paths (member, one
of its pools, another member of that pool, …) to members below it. These are successive shortest
paths with prices (node potentials), which keep every state on the way the cheapest for its loads.

If no path leads to a member below the mean, the reachable members are closed: they alone may own
the partitions of their pools, and have more partitions than the mean. They and the other members
are then two independent problems.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace


@dataclass(frozen=True, slots=True)
class Pool:
    """Partitions that are alike."""

    size: int
    members: tuple[int, ...]
    """Members that may own them: at least one; members are numbers from 0."""
    owned: Mapping[int, int]
    """Member -> number of them that it owns now; in sum at most `size`."""
    far: AbstractSet[int] = frozenset()
    """Members that would read them across racks."""

    def without(self, closed: AbstractSet[int]) -> "Pool":
        """The pool if these members may not own any of it."""
        if closed.isdisjoint(self.members):
            return self
        owned = {member: count for member, count in self.owned.items() if member not in closed}
        return Pool(
            self.size,
            tuple(member for member in self.members if member not in closed),
            owned,
            self.far,
        )


def fair_shares(pools: Sequence[Pool]) -> list[dict[int, int]]:
    """For each pool: member -> number of partitions that it should own.

    Members without partitions are left out.
    """
    shares: list[dict[int, int]] = [{} for _ in pools]
    far_cost = sum(pool.size for pool in pools) + 1  # more than any number of moves
    open_problems = [(list(range(len(pools))), frozenset[int]())]
    """Numbers of pools, and the excluded members."""
    while open_problems:
        numbers, closed = open_problems.pop()
        flow = Flow([pools[number].without(closed) for number in numbers], far_cost)
        heavy = flow.level()
        for number, counts in zip(numbers, flow.counts_by_pool, strict=True):
            shares[number] = {member: count for member, count in counts.items() if count}
        if heavy:
            light = [number for number in numbers if heavy.isdisjoint(shares[number])]
            open_problems.append((light, closed | heavy))
        if flow.overfull:
            open_problems.append(
                ([number for number in numbers if not heavy.isdisjoint(shares[number])], closed)
            )
    return shares


class Flow:
    """One problem: pools, and the current owners of their partitions."""

    def __init__(self, pools: Sequence[Pool], far_cost: int) -> None:
        self.counts_by_pool: list[dict[int, int]] = [{} for _ in pools]
        self.overfull = False
        """Whether `level` stopped above the mean, so that the heavy members form a problem of their
        own.
        """
        self._pools = pools
        self._far_cost = far_cost
        self.loads = dict.fromkeys(sorted({member for pool in pools for member in pool.members}), 0)
        self.pools_by_member: dict[int, set[int]] = {member: set() for member in self.loads}
        """Member -> pools of which it owns partitions."""
        self._prices = dict.fromkeys(self.loads, 0)
        self._pool_prices = [0] * len(pools)
        for number in sorted(range(len(pools)), key=lambda index: len(pools[index].members)):
            self._place(number, pools[number])

    def level(self) -> frozenset[int]:
        """Make loads as even as the members allow.

        Returns no members if all are level. Otherwise returns the members that form a separate
        problem; unless `overfull` is set, it is solved, and only the other members remain.
        """
        if not self.loads:
            return frozenset()
        mean, remainder = divmod(sum(self.loads.values()), len(self.loads))
        mean += remainder > 0
        if stuck := self._push_down_to(mean):
            self.overfull = True
            return stuck
        if min(self.loads.values()) >= mean - 1:
            return frozenset()
        # A member that stays above has no path to a member below: all members that it reaches are
        # between mean - 1 and mean, as they should be.
        return self._push_down_to(mean - 1)

    def _place(self, number: int, pool: Pool) -> None:
        """Give each partition to its cheapest member.

        That is its owner if near, else the near member of least load, else any member.
        """
        near = (
            [member for member in pool.members if member not in pool.far]
            if pool.far
            else pool.members
        )
        unplaced = pool.size
        for member, count in pool.owned.items():
            if not near or member not in pool.far:
                self._add(number, member, count)
                unplaced -= count
        by_load = [(self.loads[member], member) for member in near or pool.members]
        heapify(by_load)
        for _ in range(unplaced):
            load, member = by_load[0]
            self._add(number, member, 1)
            heapreplace(by_load, (load + 1, member))
        # The price of a pool is what its most expensive partition would save, so that no first
        # step saves anything.
        self._pool_prices[number] = -max(
            self._cost(number, member, count)
            for member, count in self.counts_by_pool[number].items()
        )

    def _add(self, number: int, member: int, count: int) -> None:
        self.loads[member] += count
        counts = self.counts_by_pool[number]
        counts[member] = counts.get(member, 0) + count
        if counts[member]:
            self.pools_by_member[member].add(number)
        else:
            self.pools_by_member[member].discard(number)

    def _cost(self, number: int, member: int, nth: int) -> int:
        """Cost of the nth partition that a member has of a pool.

        Partitions that it owned before come first, and are cheaper.
        """
        pool = self._pools[number]
        far = self._far_cost if member in pool.far else 0
        return far - (nth <= pool.owned.get(member, 0))

    def _push_down_to(self, limit: int) -> frozenset[int]:
        """Push partitions from members above the limit to members below it, along cheapest paths.

        Returns no members once all are within the limit; otherwise those without a path, and all
        members that they reach.
        """
        while above := [member for member, load in self.loads.items() if load > limit]:
            start = max(self._prices[member] for member in above)
            if not self._push_along_free_paths(
                (m for m in above if self._prices[m] == start), limit
            ) and (closed := self._reprice(above, start, limit)):
                return closed
        return frozenset()

    def _push_along_free_paths(self, above: Iterable[int], limit: int) -> bool:
        """Push along paths that cost nothing at the current prices; whether there was any."""
        search = FreePaths(self, limit)
        pushed = False
        for member in above:
            while self.loads[member] > limit and (path := search.path(member)):
                self._push(path)
                pushed = True
        return pushed

    def _push(self, path: Sequence[int]) -> None:
        """Push one partition along member, pool, member, …, member."""
        for index in range(0, len(path) - 1, 2):
            self._add(path[index + 1], path[index], -1)
            self._add(path[index + 1], path[index + 2], 1)

    def _reprice(self, above: Iterable[int], start: int, limit: int) -> frozenset[int]:
        """Reprice by Dijkstra from members above the limit to the nearest member below it.

        The new prices make that path free. Returns the members that are reachable, which are
        closed, if there is no path.
        """
        distances: dict[tuple[bool, int], int] = {}
        heap = [(start - self._prices[member], False, member) for member in above]
        heapify(heap)
        while heap:
            distance, is_pool, number = heappop(heap)
            if (is_pool, number) in distances:
                continue
            if not is_pool and self.loads[number] < limit:
                self._shift(distances, distance)
                return frozenset()
            distances[is_pool, number] = distance
            for next_number, cost in (
                self.from_pool(number) if is_pool else self.from_member(number)
            ):
                if (not is_pool, next_number) not in distances:
                    heappush(heap, (distance + cost, not is_pool, next_number))
        return frozenset(number for is_pool, number in distances if not is_pool)

    def _shift(self, distances: Mapping[tuple[bool, int], int], nearest: int) -> None:
        for (is_pool, number), distance in distances.items():
            if is_pool:
                self._pool_prices[number] += distance - nearest
            else:
                self._prices[number] += distance - nearest

    def from_member(self, member: int) -> Iterator[tuple[int, int]]:
        """Pools of which the member could give away a partition, with the price of each."""
        price = self._prices[member]
        for number in sorted(self.pools_by_member[member]):
            cost = self._cost(number, member, self.counts_by_pool[number][member])
            yield number, price - cost - self._pool_prices[number]

    def from_pool(self, number: int) -> Iterator[tuple[int, int]]:
        """Members that could get a partition of the pool, with the price of each: at least 0."""
        price, counts = self._pool_prices[number], self.counts_by_pool[number]
        for member in self._pools[number].members:
            yield (
                member,
                price
                + self._cost(number, member, counts.get(member, 0) + 1)
                - self._prices[member],
            )

    def is_free(self, is_pool: bool, number: int, end: int) -> bool:
        """Whether one more partition can move between a pool and a member (either way) for free."""
        pool, member = (number, end) if is_pool else (end, number)
        count = self.counts_by_pool[pool].get(member, 0)
        if is_pool:
            return (
                self._pool_prices[pool] + self._cost(pool, member, count + 1)
                == self._prices[member]
            )
        return (
            count > 0
            and self._prices[member] - self._cost(pool, member, count) == self._pool_prices[pool]
        )


class FreePaths:
    """A depth-first search for paths that cost nothing, with Dinic's arc pointers.

    It remembers nodes without such paths. A later push may open paths from them; the next search
    finds these.
    """

    def __init__(self, flow: Flow, limit: int) -> None:
        self._flow = flow
        self._limit = limit
        self._seen: set[tuple[bool, int]] = set()
        """Nodes (is a pool, number) on the current path, and dead ends."""
        self._ways: dict[tuple[bool, int], list[int]] = {}
        """Node -> next nodes that are still to be tried, in reverse order."""

    def path(self, start: int) -> list[int]:
        """Member, pool, member, …, member below the limit; empty if there is no path."""
        path = [start]
        self._seen.add((False, start))
        while path:
            is_pool = len(path) % 2 == 0
            step = self._step(is_pool, path[-1])
            if step is None:
                path.pop()
                continue
            path.append(step)
            if is_pool and self._flow.loads[step] < self._limit:
                self._seen.difference_update(
                    (index % 2 == 1, number) for index, number in enumerate(path)
                )
                return path
            self._seen.add((not is_pool, step))
        return path

    def _step(self, is_pool: bool, number: int) -> int | None:
        """The next unvisited node that can be reached for free."""
        ways = self._ways.get((is_pool, number))
        if ways is None:
            ends = self._flow.from_pool(number) if is_pool else self._flow.from_member(number)
            ways = self._ways[is_pool, number] = [end for end, cost in ends if not cost]
            # Members below the limit are tried first: paths stay short, and do not block each
            # other.
            ways.sort(key=lambda end: is_pool and self._flow.loads[end] < self._limit)
        while ways:
            if (not is_pool, ways[-1]) not in self._seen and self._flow.is_free(
                is_pool, number, ways[-1]
            ):
                return ways[-1]
            ways.pop()
        return None
