"""Writes `docs/compatibility.md` from a run: one row per client, one column per test.

pytest -m interop --junitxml=.tools/interop.xml
PYTHONPATH=tests python -m interop.table .tools/interop.xml >docs/compatibility.md
"""

import importlib
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from xml.etree import ElementTree

from interop.built import (
    FLINK,
    MIRROR_MAKER,
    SPARK,
    STREAMS_AND_CONNECT,
    flink_version,
    mirror_maker_version,
    spark_version,
    streams_and_connect_version,
)
from interop.programs import JAVA, Client
from interop.roster import CANNOT, CLIENTS, LOGINS, MECHANISMS

INTRODUCTION = """\
# Compatibility with other clients

Results of third-party clients on Kohort. `make clients` runs `make interop` and writes this page.
Each client is a small process that reports the partitions it owns, the records it processes and its
commits. A judge checks the whole timeline against these rules:

- Every record is processed.
- The next owner of a partition starts at an acknowledged commit or beyond it.
- No commit is ahead of the processed records.
- No record is skipped or repeated while a partition is owned.
- No partition has two owners at a time.

| column | test |
| --- | --- |
| rebalances | Two members work, a third joins, one leaves, and one is killed with `kill -9` |
| restarts | The server is stopped, then killed, and restarted on its data. A new member resumes |
| codecs | All other clients read what it writes with each codec, and the reverse |
| transactions | Commits and aborts of records and offsets, fencing, and a `kill -9` at each step |

`make test-long` runs the tests of transactions also on Apache Kafka, with those of Streams, Connect
and Flink with exactly-once delivery.

✓ passed · ✗ failed · – not run, with the reason below the table.
"""
NOTES = """\
## Notes on clients

These are properties of the clients, not of Kohort. The programs and tests allow for them.

- **kafka-go** forgets its member id when it loses the connection. After a restart of the server its
  old members delay the group until their sessions expire. Its Reader may deliver messages of an
  earlier generation and commit them in the next one. The test program therefore ignores messages
  below the committed offset. Its subscriptions claim version 1 without that version's last field. A
  Java leader fails on them, so mixed groups exclude kafka-go. Its producer is not idempotent:
  franz-go writes in its place while the server restarts.
- **kafkajs** also rejoins as a new member after a lost connection.
- **@platformatic/kafka** continues with fetched messages after a rebalance begins. It then starts
  again from the committed offsets. The test program waits for the end of the rebalance and ignores
  messages below those offsets. With the consumer protocol its events name no partitions. The
  program reads them from `consumer.assignments` before each heartbeat.
- **librdkafka** 2.16 never sends offsets of a transaction to a group whose coordinator it knew
  before the server restarted, to Apache Kafka neither. `send_offsets_to_transaction` then waits for
  its timeout.
- **librdkafka** 2.16 gives up partitions for good, on Apache Kafka too, if OffsetFetch is refused
  for the group, as by NOT_COORDINATOR while the coordinator moves. The same happens if a connection
  ends before the response while the assignment changes. It does not read these partitions. In a
  group of the consumer protocol it does not revoke them either, and once expelled for that it does
  not join again. The application gets the error "Failed to fetch committed offsets for" these
  partitions, and has to open a new consumer.
- **librdkafka** stops with the fatal error GROUP_ID_NOT_FOUND if its group became a classic one
  while the coordinator had expelled it as a member of the consumer protocol. Apache Kafka has the
  same code for that. The application has to open a new consumer.
- **librdkafka** before 2.6.1, which kcat 1.7 uses, cannot authenticate by SCRAM, to Apache Kafka 4
  neither: it repeats its own nonce, and since CVE-2024-56128 brokers compare nonces. The log of the
  server says so. PLAIN works. Debian's build of kcat has no OIDC, without which it gets no token
  for OAUTHBEARER but one that is not signed.
- **kcat** 1.7.1 loses records in a group (`-G`), on Apache Kafka too. If a record arrives after
  SIGTERM or SIGINT, kcat commits its offset and does not print it. If kcat is killed while the
  reader of its output is behind, it may have committed one record more than it wrote. The tests
  let producers rest while they stop kcat. `-X auto.commit.interval.ms` has no effect on the group:
  it sets the property of the topic with the same name.
- **sarama** and **kcat** do not report the result of a commit. An observer checks their commits.
"""
FRAMEWORKS = """\
## Frameworks

No test of this suite runs these. Each was tried once, by a small program that writes records and
processes them in a group.

- **Faust** (faust-streaming 0.15.3): an agent with `group_by` and a table, which a second run
  restored from its changelog.
- **Quix Streams** (quixstreams 3.28.1): a tumbling window with state, `at-least-once`.
- **FastStream** (faststream 0.7.8): `@subscriber` and `@publisher`, with aiokafka and with
  confluent-kafka.
- **Celery** (celery and kombu 5.7.0): tasks, with the broker URL `confluentkafka://HOST:PORT`.
- **NestJS** (@nestjs/microservices 12.1.1): `@EventPattern`, and `@MessagePattern` with responses.
- **Spring for Apache Kafka** (spring-kafka 4.2.0-M1): `@KafkaListener` with three consumers, and
  failures that are retried.

kafka-go's own tests pass (`test_kafka_go_suite.py`, `make test-long`), except for those of quotas,
ACLs and SASL users, and those that Apache Kafka 4.4 does not pass either.
"""
COLUMNS = {
    "rebalances": "test_groups.test_every_record_is_processed_across_rebalances",
    "restarts": "test_groups.test_resumes_after_a_restart",
    "codecs": "test_codecs.test_reads_what_every_client_wrote",
}
TRANSACTIONS = "test_transactions"
SECURITY = "test_security"
LOGIN_TESTS = ("test_a_client_produces_and_consumes", "test_a_client_produces")
LOGIN_HEAD = """
## Authentication over TLS

Each client authenticates at a server with an authorizer, which lets its user write. One way of each
client is tried in a group, the others by a producer. kcat cannot do three of them: see the
[notes](#notes-on-clients).
"""
TOOLS = {
    "Groups of several libraries": "test_groups",
    "Leadership that changes hands between our client and theirs": "test_leaders",
    "Static members": "test_static_members",
    "`kafka-consumer-groups` and `kafka-topics`, groups at work": "test_command_line_tools",
    "`kafka-consumer-groups`, option by option": "test_consumer_group_options",
    "Console clients, performance tests, and the other tools": "test_more_tools",
    "Tools of administrators": "test_administration_tools",
    "kcat": "test_kcat",
    "Kafka Streams": "test_streams",
    "Kafka Connect": "test_connect",
    "MirrorMaker": "test_mirror_maker",
    "Apache Flink": "test_flink",
    "Spark's Kafka connector": "test_spark",
    "KIP-848": "test_new_protocol",
}


@dataclass(frozen=True)
class Result:
    """What became of one test."""

    module: str
    function: str
    parameter: str
    mark: str
    reason: str

    @property
    def test(self) -> str:
        return f"{self.module}.{self.function}"

    @property
    def title(self) -> str:
        """The test's name as words, with its parameter or the options that its docstring begins
        with.
        """
        words = self.function.removeprefix("test_").replace("_", " ")
        docstring = getattr(_module(self.module), self.function).__doc__ or ""
        documented = " ".join(docstring.partition("\n\n")[0].split())
        told = self.parameter or (documented.rstrip(".") if documented.startswith("`") else "")
        return f"{words}: {told}" if told else words


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(f"interop.{name}")


def results(path: str) -> Iterator[Result]:
    """The tests of this suite in a JUnit file, as pytest writes it."""
    for case in ElementTree.parse(path).iter("testcase"):
        named = re.fullmatch(r"(\w+)(?:\[(.*)\])?", case.get("name", ""))
        module = case.get("classname", "").rpartition("interop.")[2]
        if named and module in {
            *TOOLS.values(),
            *(test.partition(".")[0] for test in COLUMNS.values()),
            TRANSACTIONS,
            SECURITY,
        }:
            yield Result(module, named[1], named[2] or "", *_outcome(case))


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    skipped = case.find("skipped")
    if skipped is not None:
        return "–", re.sub(r"^.*?Skipped: ", "", skipped.get("message", ""))
    failed = case.find("failure") is not None or case.find("error") is not None
    return ("✗", "failed") if failed else ("✓", "")


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def client_table(found: Mapping[tuple[str, str], Result]) -> Iterator[str]:
    yield _row(("client", "version", "assignor", *COLUMNS, "transactions"))
    yield _row(["---"] * (4 + len(COLUMNS)))
    for name, client, assignor in _rows():
        version = client.version() if client.missing() is None else ""
        cells = [_cell(found.get((test, name)), column, client) for column, test in COLUMNS.items()]
        yield _row((name, version, assignor, *cells, _transactions(found.values(), name)))


def _rows() -> Iterator[tuple[str, Client, str]]:
    for client in CLIENTS:
        yield client.name, client, client.assignor
    yield "java-range", JAVA, "range"


def _cell(result: Result | None, column: str, client: Client) -> str:
    if result is None:
        return ""
    codecs = f" {', '.join(client.codecs)}" if column == "codecs" and result.mark == "✓" else ""
    return f"{result.mark}{codecs}"


def _transactions(found: Iterable[Result], client: str) -> str:
    """One mark for all tests of transactions with this client."""
    marks = {
        each.mark
        for each in found
        if each.module == TRANSACTIONS and re.fullmatch(rf"(\d-)?{client}(-\d)?", each.parameter)
    }
    return next((mark for mark in "✗–✓" if mark in marks), "")


def login_table(found: Iterable[Result]) -> Iterator[str]:
    """One row per client, one column per SASL mechanism, and one for client certificates."""
    marks = {
        one.parameter: one.mark
        for one in found
        if one.module == SECURITY and one.function in LOGIN_TESTS
    }
    yield LOGIN_HEAD
    yield _row(("client", *MECHANISMS))
    yield _row(["---"] * (1 + len(MECHANISMS)))
    for name in dict.fromkeys(client for client, _ in LOGINS):
        ways = ((name, each) for each in MECHANISMS)
        yield _row(
            (name, *("–" if way in CANNOT else marks.get("-".join(way), "") for way in ways))
        )


def tool_tables(found: Sequence[Result]) -> Iterator[str]:
    for title, module in TOOLS.items():
        of_module = [
            one for one in found if one.module == module and one.test not in COLUMNS.values()
        ]
        if of_module:
            yield f"\n### {title}\n"
            yield from (_item(f"{one.mark} {one.title}") for one in of_module)


def reasons(found: Iterable[Result]) -> Iterator[str]:
    told = {one.reason for one in found if one.mark == "–"}
    yield from (_item(f"not run: {reason}") for reason in sorted(told))


def _item(text: str) -> str:
    """An item of a list, wrapped."""
    return textwrap.fill(
        text, 100, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )


def page(found: Sequence[Result]) -> str:
    by_client = {(one.test, one.parameter): one for one in found}
    spark = f"\nSpark: {spark_version()}." if SPARK.missing() is None else ""
    streams = (
        f"\nKafka Streams and Connect: {streams_and_connect_version()}."
        if STREAMS_AND_CONNECT.missing() is None
        else ""
    )
    mirror = f"\nMirrorMaker: {mirror_maker_version()}." if MIRROR_MAKER.missing() is None else ""
    flink = f"\nApache Flink: {flink_version()}." if FLINK.missing() is None else ""
    parts = [
        INTRODUCTION,
        *client_table(by_client),
        "",
        *reasons(found),
        spark,
        streams,
        mirror,
        flink,
        *login_table(found),
        "\n## Beyond single clients",
        *tool_tables(found),
        "",
        FRAMEWORKS,
        NOTES,
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip()


if __name__ == "__main__":
    print(page(list(results(sys.argv[1]))))
