"""Clients with processes of their own, which work for a whole run: Apache Kafka's and franz-go."""

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from interop.built import FRANZ_GO
from interop.processes import Feed, Process
from interop.programs import JAVA, Client
from interop.timeline import Committed, Records
from live.chaos.checks import SHOWN, Content
from live.chaos.ledger import Ledger, Partition
from live.chaos.settings import HEARTBEAT_MS, NICENESS, SESSION_MS, TOPICS

CLIENTS = (JAVA, FRANZ_GO)
RECORDS_A_SECOND = 40.0
GROUPS = {"programs": "", "new-programs": "consumer"}
"""Groups with one member of each client, and their `group.protocol`."""


ENDED_BY_CLIENT = "Cannot set a new position without a valid current position"
"""How Apache Kafka's consumer of KIP-848 fails when it learns of another leader in its background
thread while `poll` gives out records of the partition, in `FetchCollector.fetchRecords`.
"""

Fed: TypeAlias = Sequence[tuple[str, str]]
"""Keys and values of records, in the order in which they were sent."""


def missing() -> str | None:
    """Why they cannot run here, or None."""
    return next((reason for each in CLIENTS if (reason := each.missing())), None)


def fed_topic(client: Client) -> str:
    """The topic that the client's producer writes to."""
    return f"fed-by-{client.name}"


FED_TOPICS = tuple(map(fed_topic, CLIENTS))


@dataclass(frozen=True)
class Program:
    """A member of a group."""

    client: Client
    group: str

    @property
    def name(self) -> str:
        return f"{self.group}/{self.client.name}"

    def start(self, address: str, directory: Path, ledger: Ledger) -> Process:
        options = {
            "bootstrap": address,
            "client": self.name,
            "group": self.group,
            "topics": ",".join(TOPICS),
            "assignor": "range",
            "session": str(SESSION_MS),
            "heartbeat": str(HEARTBEAT_MS),
        }
        if protocol := GROUPS[self.group]:
            options["protocol"] = protocol

        def hear(line: str) -> None:
            match self.client.hears(self.name, line):
                case Records(_, _, partition, offsets, values):
                    for offset, value in zip(offsets, values, strict=True):
                        ledger.record_read(self.name, _partition(partition), offset, value.encode())
                case Committed(_, _, offsets):
                    for partition, offset in offsets.items():
                        ledger.record_committed(
                            self.name, self.group, _partition(partition), offset
                        )

        log = directory / f"{self.name.replace('/', '-')}.log"
        return Process(self.name, _nicely(self.client.command("consume", options)), log, hear)


def _nicely(command: Sequence[str]) -> list[str]:
    return ["nice", "-n", str(NICENESS), *command]


def _partition(name: str) -> Partition:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


PROGRAMS = tuple(Program(client, group) for group in GROUPS for client in CLIENTS)


class Programs:
    """All of them, from `start` to `stop`."""

    def __init__(self, address: str, directory: Path, ledger: Ledger) -> None:
        self._ledger = ledger
        self._address, self._directory = address, directory
        self._members = {each: each.start(address, directory, ledger) for each in PROGRAMS}
        self._feeds = {}
        for client in CLIENTS:
            options = {"bootstrap": address, "topic": fed_topic(client), "codec": "none"}
            producer = Process(
                fed_topic(client),
                _nicely(client.command("produce", options)),
                directory / f"{fed_topic(client)}.log",
            )
            self._feeds[fed_topic(client)] = Feed(producer, RECORDS_A_SECOND)

    def restart_ended(self) -> None:
        """Start the members again that ended by a mistake of their own client."""
        for program, member in self._members.items():
            if member.popen.poll() is not None and ENDED_BY_CLIENT in member.errors():
                self._members[program] = program.start(self._address, self._directory, self._ledger)
                self._ledger.replaced[program.name] += 1

    def stop(self) -> dict[str, Fed]:
        """End all of them; what was sent and acknowledged, by topic."""
        fed = {}
        for topic, feed in self._feeds.items():
            try:
                feed.end()
            except AssertionError as error:
                self._ledger.violation(f"{topic}: not all was acknowledged: {error}")
            fed[topic] = [*zip(feed.keys, feed.sent, strict=False)]
        for member in self._members.values():
            if (code := member.popen.poll()) is not None:
                self._ledger.violation(f"{member.name} ended by itself: {code} {member.tail()}")
            else:
                member.ask_to_leave()
                with contextlib.suppress(AssertionError):
                    member.wait(30)
        return fed


def check_fed(topic: str, sent: Fed, contents: Mapping[int, Content]) -> Iterator[str]:
    """Each record of an idempotent producer is there once, those of a key in their order."""
    found = defaultdict(list)
    for content in contents.values():
        for _, stored_key, stored in content:
            found[(stored_key or b"").decode()].append((stored or b"").decode())
    wanted = defaultdict(list)
    for key, value in sent:
        wanted[key].append(value)
    for key, values in wanted.items():
        if found[key] != values:
            at = next(
                number
                for number, (one, two) in enumerate(itertools.zip_longest(values, found[key]))
                if one != two
            )
            yield (
                f"{topic} {key}: {values[at : at + SHOWN]} was acknowledged, and there is "
                f"{found[key][at : at + SHOWN]}"
            )
