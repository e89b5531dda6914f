"""Writes `docs/clients.md` from the results of a run: client x what was run x result.

pytest -m interop --junitxml=.tools/interop.xml
PYTHONPATH=tests python -m interop.table .tools/interop.xml >docs/clients.md
"""

import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from xml.etree import ElementTree

from interop.built import SPARK, spark_version
from interop.programs import JAVA, Client
from interop.roster import CLIENTS

INTRODUCTION = """\
# Clients

What clients written by others do on Kohort, from a run of `make interop`; `make clients` runs it and writes this page.
Every client is a small process of its own that tells what it owns, processes and commits. A judge holds the whole
timeline against these rules: every record is processed, an acknowledged commit is where the next owner starts or
further on, no commit runs ahead of what was processed, nothing is skipped or comes twice while a partition is owned,
and no partition is owned by two members at a time.

- **rebalances**: two members, a third joins, one leaves in good order, one is killed with `kill -9`, while records
  come in.
- **restarts**: the server is stopped, then killed, and started again on its data; the members go on, and a new one
  resumes.
- **codecs**: what it writes with each codec, all the others read, and the reverse.

✓ passed · ✗ failed · – not run, with the reason below the table.
"""
NOTES = """\
## What to know about them

None of it is Kohort's doing; the programs and tests make allowance for it.

- **kafka-go** gives up its member id when it loses the connection: after a restart of the server its old members hold
  up the group until their sessions expire. Its Reader may hand out messages of an earlier generation, and would commit
  them in the next one: the program for it takes only what follows the committed offset. Its subscriptions claim
  version 1 without that version's last field, so that a Java client that leads the group fails: mixed groups leave it
  out. Its producer knows no idempotence: franz-go writes in its place while the server restarts.
- **kafkajs** also comes back as a new member after a lost connection.
- **@platformatic/kafka** goes on with what it has fetched when a rebalance comes, and then starts again from the
  committed offsets: the program for it waits for the end of the rebalance, and takes only what follows those.
- **sarama** tells no result of a commit, and **kcat** none either: their commits are seen by an observer.
- The group protocol of KIP-848 is not served; Java's client and @platformatic/kafka, asked to use it, say so and end.
"""
COLUMNS = {
    "rebalances": "test_groups.test_rebalances",
    "restarts": "test_groups.test_resumes_after_a_restart",
    "codecs": "test_codecs.test_reads_what_every_client_wrote",
}
TOOLS = {
    "Groups of several libraries": "test_groups",
    "Leadership that changes hands between our client and theirs": "test_leaders",
    "Static members, Java": "test_static_members",
    "`kafka-consumer-groups` and `kafka-topics`, groups at work": "test_command_line_tools",
    "`kafka-consumer-groups`, option by option": "test_consumer_group_options",
    "Console clients, performance tests, and the other tools": "test_more_tools",
    "Spark's Kafka connector": "test_spark",
    "KIP-848 asked for": "test_new_protocol",
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
        documented = (getattr(_module(self.module), self.function).__doc__ or "").partition("\n")[0]
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
    yield _row(("client", "version", "assignor", *COLUMNS))
    yield _row(["---"] * (3 + len(COLUMNS)))
    for name, client, assignor in _rows():
        version = client.version() if client.missing() is None else ""
        cells = [_cell(found.get((test, name)), column, client) for column, test in COLUMNS.items()]
        yield _row((name, version, assignor, *cells))


def _rows() -> Iterator[tuple[str, Client, str]]:
    for client in CLIENTS:
        yield client.name, client, client.assignor
    yield "java-range", JAVA, "range"


def _cell(result: Result | None, column: str, client: Client) -> str:
    if result is None:
        return ""
    codecs = f" {', '.join(client.codecs)}" if column == "codecs" and result.mark == "✓" else ""
    return f"{result.mark}{codecs}"


def tool_tables(found: Sequence[Result]) -> Iterator[str]:
    for title, module in TOOLS.items():
        of_module = [
            one for one in found if one.module == module and one.test not in COLUMNS.values()
        ]
        if of_module:
            yield f"\n### {title}\n"
            yield from (f"- {one.mark} {one.title}" for one in of_module)


def reasons(found: Iterable[Result]) -> Iterator[str]:
    told = {one.reason for one in found if one.mark == "–"}
    yield from (f"- not run: {reason}" for reason in sorted(told))


def page(found: Sequence[Result]) -> str:
    by_client = {(one.test, one.parameter): one for one in found}
    spark = f"\nSpark: {spark_version()}." if SPARK.missing() is None else ""
    parts = [
        INTRODUCTION,
        *client_table(by_client),
        "",
        *reasons(found),
        spark,
        "\n## Beyond single clients",
        *tool_tables(found),
        "",
        NOTES,
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip()


if __name__ == "__main__":
    print(page(list(results(sys.argv[1]))))
