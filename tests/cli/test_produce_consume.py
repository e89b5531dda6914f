"""`kohort produce` and `kohort consume` against `kohort serve`."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from cli.running import Outcome, runner
from kohort.cli import app
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.testing.server_process import ServerProcess

NUMBERS = count(1)
KOHORT = (sys.executable, "-m", "kohort")
PATIENCE = 60.0


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with ServerProcess("--memory", "--dev", log=log, settings={"num.partitions": "1"}) as server:
        yield server.address


class Shell:
    """Both commands, called in this process, on a topic of the test's own."""

    def __init__(self, bootstrap: str, capfd: pytest.CaptureFixture[str], directory: Path) -> None:
        self.bootstrap = bootstrap
        self.topic = f"t{next(NUMBERS)}"
        self._capfd = capfd
        self._input = directory / "input"

    def call(self, *words: str) -> Outcome:
        self._capfd.readouterr()
        code = app.run(words)
        return Outcome(code, *self._capfd.readouterr())

    def produce(self, text: str | bytes, *words: str) -> Outcome:
        self._input.write_bytes(text.encode() if isinstance(text, str) else text)
        return self.call(
            "produce", "-b", self.bootstrap, "-t", self.topic, *words, "-l", str(self._input)
        )

    def consume(self, *words: str) -> Outcome:
        return self.call("consume", "-b", self.bootstrap, "-t", self.topic, *words)

    def group(self, group: str, *words: str) -> Outcome:
        return self.call("consume", "-b", self.bootstrap, "-G", group, *words, self.topic)

    def start(self, *words: str, **more: object) -> "subprocess.Popen[bytes]":
        command = [*KOHORT, words[0], "-b", self.bootstrap, *words[1:]]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def shell(bootstrap: str, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    return Shell(bootstrap, capfd, tmp_path)


# --- there and back
# --------------------------------------------------------------------------------------------------


def test_lines_come_back_as_lines(shell: Shell) -> None:
    sent = shell.produce("a\nb\n\nc")
    told = f"kohort: 3 records to topic {shell.topic}, which is new"
    assert (sent.exit_code, sent.output, sent.stderr.strip().partition(";")[0]) == (0, "", told), (
        sent
    )
    assert shell.produce("", "-q").stderr == ""
    assert shell.consume("-e") == (
        0,
        "a\nb\nc\n",
        f"% Reached end of topic {shell.topic} [0] at offset 3: exiting\n",
    )
    assert shell.consume("-e", "-q").stderr == ""


def test_a_topic_that_sending_creates_is_told(shell: Shell) -> None:
    shell.call("topics", "create", "-b", shell.bootstrap, f"{shell.topic}-orders")
    shell.topic += "-ordesr"
    told = f"1 record to topic {shell.topic}, which is new; did you mean {shell.topic[:-6]}orders?"
    assert shell.produce("a").stderr == f"kohort: {told}\n"
    assert shell.produce("a").stderr == f"kohort: 1 record to topic {shell.topic}\n"


def test_a_partition_that_the_topic_lacks_is_told_at_once(shell: Shell) -> None:
    shell.call("topics", "create", "-b", shell.bootstrap, shell.topic, "--partitions", "2")
    done = shell.produce("a", "-p", "9")
    told = f"kohort: topic {shell.topic} has partitions 0 to 1, not 9\n"
    assert (done.exit_code, done.stderr) == (1, told)


def test_words_and_options_in_any_order(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("a:1\n")
    file = str(tmp_path / "lines")
    server = ("-b", shell.bootstrap)
    assert shell.call("produce", shell.topic, "-K", ":", *server, "-l", file).exit_code == 0
    read = shell.call("consume", *server, shell.topic, "-e", "-q", "-f", r"%k %s\n")
    assert (read.exit_code, read.output) == (0, "a 1\n")
    unknown = shell.call("produce", shell.topic, "--ke", "x")
    assert (unknown.exit_code, "unrecognized arguments: --ke" in unknown.stderr) == (2, True)


def test_keys_headers_and_null(shell: Shell) -> None:
    shell.produce("k1:v1\nk2\n:v3\nk4:\n", "-K", ":", "-Z", "-H", "a=1", "-H", "b")
    shell.produce("k5:v5\nv6\n:v7\n", "-K", ":", "-k", "fixed")
    assert shell.consume("-e", "-q", "-Z", "-f", r"%k %s %K %S %h\n").output.splitlines() == [
        "k1 v1 2 2 a=1,b=NULL",
        "NULL k2 -1 2 a=1,b=NULL",
        "NULL v3 -1 2 a=1,b=NULL",
        "k4 NULL 2 -1 a=1,b=NULL",
        "k5 v5 2 2 ",
        "fixed v6 5 2 ",
        "NULL v7 0 2 ",
    ]


def test_all_records_are_one_transaction(shell: Shell) -> None:
    name = f"id-{shell.topic}"
    for text in ("a\nb\n", "c\n"):
        assert shell.produce(text, "-X", f"transactional.id={name}").exit_code == 0
    committed = shell.consume("-e", "-q", "-X", "isolation.level=read_committed")
    assert committed.output.split() == ["a", "b", "c"]
    options = ("-b", shell.bootstrap, "--transactional-id", name)
    described = shell.call("transactions", "describe", *options, "--output", "json").json
    assert (described["state"], described["timeout_ms"]) == ("CompleteCommit", 60_000)
    partition = ("-b", shell.bootstrap, "--topic", shell.topic, "--partition", "0")
    (producer,) = shell.call(
        "transactions", "describe-producers", *partition, "--output", "json"
    ).json
    assert producer["producer_id"] == described["producer_id"]
    listed = shell.call("transactions", "--list", "--transactional-id-pattern", name, *options[:2])
    assert listed.output.split()[-4] == name
    assert shell.call("transactions", "force-terminate", *options).exit_code == 0
    none_open = shell.call("transactions", "abort", *partition, "--start-offset", "0")
    assert none_open.exit_code == 1
    assert shell.call("transactions", "abort", *partition).exit_code == 2


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_survive_every_codec(shell: Shell, codec: str) -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    assert shell.produce(text, "-z", codec).exit_code == 0
    assert shell.consume("-e", "-q").output == text


def test_each_file_is_one_record(shell: Shell, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "empty", "b")]
    for file, content in zip(files, ("1\n2\n", "", "3"), strict=True):
        file.write_text(content)
    call = ("produce", "-b", shell.bootstrap, "-t", shell.topic, "-k", "k")
    assert shell.call(*call, *map(str, files)).exit_code == 0
    assert shell.consume("-e", "-q", "-K", "=", "-D", "|").output == "k=1\n2\n|k=3|"
    missing = shell.call(*call, str(tmp_path / "missing"), str(files[2]))
    assert (missing.exit_code, missing.stderr) == (
        1,
        f"kohort: {tmp_path / 'missing'}: No such file or directory; without a FILE, "
        "records are lines of standard input\n"
        f"kohort: 1 record to topic {shell.topic}\n",
    )
    assert shell.consume("-e", "-q", "-o", "-1").output == "3\n"


def test_count_bounds_the_records_produced_and_consumed(shell: Shell) -> None:
    shell.produce("".join(f"{number}\n" for number in range(100)), "-c", "7")
    assert shell.consume("-e", "-q").output == "0\n1\n2\n3\n4\n5\n6\n"
    assert shell.consume("-c", "3").output == "0\n1\n2\n"


def test_tee_prints_values_without_delimiters(shell: Shell) -> None:
    assert shell.produce("a\nb\n", "-T").output == "ab"  # as kcat: without delimiters


def test_json_output_has_the_place_of_each_record(shell: Shell) -> None:
    shell.produce("k:v\n", "-K", ":")
    told = json.loads(shell.consume("-e", "-q", "-J").output)
    assert (told["topic"], told["partition"], told["offset"], told["broker"]) == (
        shell.topic,
        0,
        0,
        0,
    )
    assert (told["tstype"], told["key"], told["payload"]) == ("create", "k", "v")


# --- where to start and stop
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-o", "beginning"), "0123456789"),
        (("-o", "end"), ""),
        (("-o", "4"), "456789"),
        (("-o", "-3"), "789"),
        (("-o", "-30"), "0123456789"),
        (("-o", "100"), ""),
        (("-o", "s@0"), "0123456789"),
        (("-o", "s@99999999999999"), ""),
        (("-o", "2", "-c", "3"), "234"),
        (("-p", "0", "-o", "8"), "89"),
    ],
)
def test_consume_begins_and_ends_at_given_offsets(
    shell: Shell, words: tuple[str, ...], expected: str
) -> None:
    shell.produce("".join(f"{number}\n" for number in range(10)))
    assert shell.consume("-e", "-q", "-D", "", *words).output == expected


def test_consume_begins_and_ends_at_given_times(shell: Shell) -> None:
    shell.produce("early\n")
    time.sleep(0.02)
    between = time.time_ns() // 1_000_000
    time.sleep(0.02)
    shell.produce("late\nlater\n")
    assert shell.consume("-e", "-q", "-o", f"s@{between}").output == "late\nlater\n"
    # without -e: it ends where it shall stop
    stopped = shell.consume("-o", "beginning", "-o", f"e@{between}")
    assert stopped.output == "early\n"
    assert "Reached stop timestamp" in stopped.stderr


def test_all_partitions_or_one(shell: Shell) -> None:
    wide = f"{shell.topic}-wide"
    shell.topic = wide
    make_topic(shell.bootstrap, wide, 3)
    for partition in range(3):
        shell.produce(f"{partition}a\n{partition}b\n", "-p", str(partition))
    every = shell.consume("-e", "-f", r"%p %o %s\n")
    assert sorted(every.output.splitlines()) == [
        "0 0 0a",
        "0 1 0b",
        "1 0 1a",
        "1 1 1b",
        "2 0 2a",
        "2 1 2b",
    ]
    assert every.stderr.count("Reached end") == 3
    assert every.stderr.count(": exiting") == 1
    assert shell.consume("-e", "-q", "-p", "1").output == "1a\n1b\n"
    assert shell.consume("-p", "3").stderr == f"kohort: topic {wide} has partitions 0 to 2, not 3\n"


def make_topic(bootstrap: str, name: str, partitions: int) -> None:
    async def make() -> None:
        async with Cluster(ClientConfig(bootstrap=bootstrap)) as cluster:
            await Admin(cluster).create_topic(name, partitions=partitions)

    asyncio.run(make())


# --- groups
# --------------------------------------------------------------------------------------------------


def committed(shell: Shell, group: str) -> list[int | None]:
    (described,) = shell.call(
        "groups", "describe", "--group", group, "-b", shell.bootstrap, "--output", "json"
    ).json
    return [each["committed_offset"] for each in described["offsets"]]


def test_a_group_goes_on_where_it_was(shell: Shell) -> None:
    group = f"g-{shell.topic}"
    shell.produce("0\n1\n2\n3\n4\n")
    first = shell.group(group, "-X", "auto.offset.reset=earliest", "-c", "2")
    assert (first.exit_code, first.output) == (0, "0\n1\n")
    assert re.search(
        (rf"% Group {group} rebalanced \(memberid \S+\): assigned: {shell.topic} \[0\]"),
        first.stderr,
    )
    assert committed(shell, group) == [2]
    assert shell.group(group, "-e", "-q") == (0, "2\n3\n4\n", "")
    assert committed(shell, group) == [5]
    assert shell.group(group, "-e", "-o", "-2", "-q").output == "3\n4\n"
    assert shell.consume("-e", "-q", "-o", "stored", "-X", f"group.id={group}").output == ""


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_a_group_of_the_consumer_protocol(shell: Shell, protocol: str) -> None:
    shell.produce("0\n1\n")
    group = f"g-{shell.topic}"
    earliest = ("-X", "auto.offset.reset=earliest", "-e", "-q", "--protocol", protocol)
    assert shell.group(group, *earliest) == (0, "0\n1\n", "")
    assert committed(shell, group) == [2]


def test_a_group_stops_at_a_time_too(shell: Shell) -> None:
    shell.produce("early\n")
    time.sleep(0.02)
    between = time.time_ns() // 1_000_000
    time.sleep(0.02)
    shell.produce("late\n")
    group = f"g-{shell.topic}"
    assert shell.group(group, "-o", "beginning", "-o", f"e@{between}").output == "early\n"
    assert committed(shell, group) == [1]


def test_errors_in_a_members_task_are_one_line(shell: Shell) -> None:
    """A partition that has no committed offset, where none is to be made up."""
    shell.produce("0\n")
    refused = shell.group(f"g-{shell.topic}", "-q", "-X", "auto.offset.reset=none")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert f"{shell.topic}-0" in refused.stderr


def test_a_group_without_commits_begins_at_the_end_as_in_kcat(shell: Shell) -> None:
    shell.produce("0\n1\n")
    assert shell.group(f"g-{shell.topic}", "-e", "-q").output == ""


def test_topics_by_regular_expression(shell: Shell) -> None:
    shell.produce("0\n")
    topic, shell.topic = shell.topic, f"^{shell.topic[:-1]}"
    told = shell.group(
        f"g-{topic}", "-e", "-q", "-X", "auto.offset.reset=earliest", "-f", r"%t %s\n"
    )
    assert f"{topic} 0" in told.output.splitlines()


# --- mistakes
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("consume",), "a topic is missing: one TOPIC, or -G GROUP TOPIC"),
        (("consume", "-t", "t", "-o", "middle"), "-o middle: is not beginning, end, stored"),
        (("consume", "-t", "t", "-o", "stored"), "-o stored: needs a group"),
        (("consume", "-t", "t", "-f", "%x"), "unknown token %x"),
        (("consume", "-t", "t", "-c", "0"), "-c 0"),
        (("consume", "-G", "g"), "-G: needs topics"),
        (("consume", "-G", "g", "-p", "1", "t"), "since a group assigns partitions"),
        (("consume", "-t", "t", "--protocol", "consumer"), "--protocol: needs a group"),
        (
            ("consume", "-G", "g", "-X", "session.timeout.ms=x", "t"),
            "session.timeout.ms=x: is not a number",
        ),
        (("consume", "-t", "t", "-X", "isolation.level=none"), "isolation.level=none"),
        (("consume", "-t", "t", "-X", "group.ids=g"), "did you mean group.id?"),
        (("produce",), "a topic is missing: kohort produce TOPIC"),
        (("consume", "t", "u"), "a topic is missing: one TOPIC"),
        (("produce", "-t", "t", "-z", "brotli"), "compression 'brotli'"),
        (("produce", "-t", "t", "-l", "a", "b"), "-l: takes one file"),
        (("produce", "-t", "t", "-H", "=x"), "-H =x: is not NAME=VALUE"),
        (("produce", "-t", "t", "-D", ""), "-D: the delimiter is empty"),
        (("produce", "-t", "t", "-X", "acks=2"), "acks '2'"),
    ],
)
def test_wrong_options_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    outcome = runner(capsys)(*words)
    assert outcome.exit_code == 2
    assert told in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_unreadable_files_and_unreachable_servers_are_one_line(shell: Shell) -> None:
    unknown = shell.call("consume", "-b", shell.bootstrap, "-t", "never", "-e")
    assert unknown == (1, "", "kohort: UNKNOWN_TOPIC_OR_PARTITION: topic never\n")
    nobody = shell.call("consume", "-b", "127.0.0.1:1", "-t", "t", "--timeout", "50")
    assert (nobody.exit_code, nobody.stderr.count("\n")) == (1, 1)
    missing = shell.call("produce", "-b", shell.bootstrap, "-t", "t", "-l", "/nowhere/file")
    assert (missing.exit_code, missing.stderr) == (
        1,
        "kohort: [Errno 2] No such file or directory: '/nowhere/file'\n",
    )
    large = shell.produce("x" * 2_000_000)
    assert (large.exit_code, "a message of more than 1048576 bytes" in large.stderr) == (1, True)


# --- processes: pipes and signals
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_consumer_cleanly(shell: Shell, number: signal.Signals) -> None:
    shell.produce("a\nb\n")
    process = shell.start("consume", "-t", shell.topic)
    assert process.stdout is not None
    assert process.stdout.readline() + process.stdout.readline() == b"a\nb\n"
    process.send_signal(number)
    output, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (0, b"")
    assert b"Traceback" not in stderr


def test_a_signal_ends_a_member_with_its_offsets_committed(shell: Shell) -> None:
    group = f"g-{shell.topic}"
    shell.produce("a\nb\n")
    process = shell.start("consume", "-G", group, "-X", "auto.offset.reset=earliest", shell.topic)
    assert process.stdout is not None
    assert process.stdout.readline() + process.stdout.readline() == b"a\nb\n"
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    assert committed(shell, group) == [2]
    listed = shell.call("groups", "list", "--state", "empty", "-b", shell.bootstrap)
    assert group in listed.output  # it has left, instead of being missed for a session


@pytest.mark.parametrize("words", [("-t",), ("-X", "auto.offset.reset=earliest", "-G", "pipe")])
def test_a_reader_that_has_enough_ends_a_consumer(shell: Shell, words: tuple[str, ...]) -> None:
    """Also one that waits for records that never come."""
    shell.produce("a\nb\n")
    process = shell.start("consume", *words, shell.topic)
    assert process.stdout is not None
    assert process.stdout.readline() == b"a\n"
    process.stdout.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("command", [("consume",), ("produce",), ("consume", "-L")])
def test_a_signal_ends_a_command_before_there_is_a_broker(
    shell: Shell, command: tuple[str, ...]
) -> None:
    words = (*command, "-b", "127.0.0.1:1", "-t", "t", "--timeout", "60000")
    process = shell.start(*words, stdin=subprocess.PIPE)
    assert process.stderr is not None
    assert b"127.0.0.1:1: Connection refused" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 128 + signal.SIGINT
    assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("consume -b {b} -e -q -t {t} >/dev/full", "standard output: No space left on device"),
        (
            "consume -b {b} -q -X auto.offset.reset=earliest -G full {t} >/dev/full",
            "standard output: No",
        ),
        ("consume -b {b} -e -q -t {t} >&-", "standard output: Bad file descriptor"),
        ("produce -b {b} -t {t} <&-", "standard input is closed"),
    ],
)
def test_streams_that_cannot_be_used_are_told_in_a_line(
    shell: Shell, command: str, told: str
) -> None:
    shell.produce("a\nb\n")
    words = f'"$0" -m kohort {command.format(b=shell.bootstrap, t=shell.topic)}'
    done = subprocess.run(
        ["bash", "-c", words, sys.executable],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"kohort: {told}")
    assert done.stderr.count("\n") == 1


def test_lines_are_sent_as_they_are_typed(shell: Shell) -> None:
    process = shell.start("produce", "-t", shell.topic, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"first\nhal")
    process.stdin.flush()
    assert _exists(shell)
    assert shell.consume("-c", "1", "-q").output == "first\n"
    process.stdin.write(b"f\nlast")
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    assert shell.consume("-e", "-q").output == "first\nhalf\nlast\n"


def _exists(shell: Shell) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if shell.consume("-e", "-q").exit_code == 0:
            return True
        time.sleep(0.05)
    return False


def test_a_signal_ends_a_producer_with_what_was_read_sent(shell: Shell) -> None:
    process = shell.start("produce", "-t", shell.topic, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"first\nunfinished")
    process.stdin.flush()
    assert _exists(shell)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert shell.consume("-e", "-q").output == "first\n"


def test_serve_imports_no_client_and_none_of_its_assignors(tmp_path: Path) -> None:
    """`kohort serve` has to listen within 0.4 s."""
    code = (
        "import sys; from kohort.cli import app, serve; import kohort.server.broker; "
        "needless = 'kohort.client', 'kohort.assignors.registry', 'kohort.assignors.leader'; "
        "sys.exit(any(name.startswith(needless) for name in sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode
        == 0
    )


# --- asking
# --------------------------------------------------------------------------------------------------


def test_metadata_is_listed_as_kcat_does(shell: Shell) -> None:
    shell.produce("a\n")
    listed = shell.consume("-L").output.splitlines()
    assert listed[:2] == [f"Metadata for {shell.topic}:", " 1 brokers:"]
    assert re.fullmatch(r"  broker (\d+) at 127.0.0.1:\d+( \(controller\))?", listed[2])
    assert listed[3:5] == [" 1 topics:", f'  topic "{shell.topic}" with 1 partitions:']
    assert re.fullmatch(r"    partition 0, leader (\d+), replicas: \1, isrs: \1", listed[5])
    told = json.loads(shell.call("consume", "-b", shell.bootstrap, "-L", "-J").output)
    assert told["query"] == {"topic": "*"}
    (broker,) = told["brokers"]
    partition = {"partition": 0, "leader": broker["id"], "replicas": [{"id": broker["id"]}]}
    of_topic = next(each for each in told["topics"] if each["topic"] == shell.topic)
    assert of_topic["partitions"] == [partition | {"isrs": partition["replicas"]}]


def test_a_topic_that_is_not_there_is_told_and_not_made(shell: Shell) -> None:
    for _ in range(2):
        refused = shell.consume("-L")
        assert (refused.exit_code, refused.output) == (1, "")
        assert f"UNKNOWN_TOPIC_OR_PARTITION: topic {shell.topic}" in refused.stderr


def test_offsets_are_asked_for_by_timestamp(shell: Shell) -> None:
    shell.produce("a\nb\n")
    later = int(time.time() * 1000) + 60_000

    def query(*words: str) -> Outcome:
        asked = [word for each in words for word in ("-t", each)]
        return shell.call("consume", "-b", shell.bootstrap, "-Q", *asked)

    first, none, end, start = (f"{shell.topic}:0:{when}" for when in (1, later, -1, -2))
    for word, offset in ((first, 0), (none, -1), (end, 2), (start, 0)):
        assert query(word) == (0, f"{shell.topic} [0] offset {offset}\n", "")
    assert query(start, end).output.splitlines() == [
        f"{shell.topic} [0] offset {each}" for each in (0, 2)
    ]
    asked = shell.call("consume", "-b", shell.bootstrap, "-Q", "-t", end, "-J")
    assert asked.json == {shell.topic: {"0": {"offset": 2}}}
    refused = query(f"{shell.topic}:7:-1")
    assert (
        refused.exit_code,
        (f"topic {shell.topic} has partitions 0 to 0, not 7") in refused.stderr,
    ) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-Q"], "needs -t TOPIC:PARTITION:TIMESTAMP"),
        (["-Q", "-t", "orders"], "-t orders: with -Q it is"),
        (["-Q", "-t", "orders:0:now"], "with -Q it is"),
        (["-L", "-Q"], "choose one of the two"),
    ],
)
def test_invalid_consume_options_are_refused(words: list[str], told: str, shell: Shell) -> None:
    refused = shell.call("consume", "-b", shell.bootstrap, *words)
    assert refused.exit_code == 2
    assert told in refused.stderr
