"""`kohort groups watch`: what changes between two looks, and the picture of one."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from cli.running import runner
from cli.served import Serve
from kohort.cli import groups_watch
from kohort.cli.groups_watch import FRAME, NOTES, Watched, changes, picture
from kohort.client.admin import GroupDescription, MemberDescription, PartitionLag
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.types import GroupId, MemberId, TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def member(name: str, *owned: TopicPartition) -> MemberDescription:
    return MemberDescription(
        member_id=MemberId(f"{name}-1"),
        instance_id=None,
        client_id=name,
        client_host="/127.0.0.1",
        assignment=owned,
        topics=("orders",),
    )


def look(*members: MemberDescription, state: str = "Stable", committed: int = 4) -> Watched:
    group = GroupDescription(
        group=GroupId("billing"),
        state=state,
        protocol_type="consumer",
        assignor="range",
        members=members,
        coordinator=0,
        coordinator_address="localhost:9092",
    )
    lags = {
        tp: PartitionLag(
            partition=tp, committed=OffsetAndMetadata(offset=committed), start=0, end=9
        )
        for tp in (FIRST, SECOND)
    }
    return Watched(group, lags)


def test_changes_between_two_looks() -> None:
    ann, bob = member("ann", FIRST, SECOND), member("bob", SECOND)
    before = look(ann)
    assert list(changes(None, before)) == ["group billing is Stable: 1 member, lag 10"]
    assert list(changes(before, before)) == []
    assert list(changes(before, look(ann, bob, state="PreparingRebalance"))) == [
        f"{bob.name} joined",
        "Stable → PreparingRebalance",
    ]
    assert list(changes(before, look(replace(ann, assignment=(FIRST,))))) == [
        f"{ann.name} owns orders:0"
    ]
    assert list(changes(before, look(state="Empty", committed=9))) == [
        f"{ann.name} is gone",
        "Stable → Empty",
        "the lag is 0",
    ]


def test_the_picture_has_owners_lag_and_changes() -> None:
    out = StringIO()
    Console(file=out, width=90).print(picture(look(member("ann", FIRST)), ["12:00:00  ann joined"]))
    drawn = out.getvalue()
    for text in ("group billing", "Stable", "orders-0", "no owner", "lag 10", "ann joined"):
        assert text in drawn


def test_the_picture_fits_the_terminal() -> None:
    of = look(member("ann", FIRST))
    of.partition_lags.update(
        (tp, PartitionLag(partition=tp, committed=OffsetAndMetadata(offset=0), start=0, end=number))
        for number in range(50)
        for tp in (TopicPartition("many", number),)
    )
    out = StringIO()
    Console(file=out, width=90).print(picture(of, ["12:00:00  ann joined"] * NOTES, 24 - FRAME))
    assert len(out.getvalue().splitlines()) < 24
    assert out.getvalue().count("ann joined") == NOTES
    for text in ("many-49", "and 44 more, with less lag"):
        assert text in out.getvalue()


def test_lines_without_a_terminal(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(capsys, "-b", serve("--memory", "--dev").address)
    run("topics", "create", "orders")
    committed = ("-G", "billing", "-X", "auto.offset.reset=earliest", "-e", "-q", "orders")
    assert run("consume", *committed).exit_code == 0
    seen = run("groups", "watch", "billing", "--count", "2", "--interval", "0.01")
    assert (seen.exit_code, seen.stderr) == (0, "")
    assert seen.output.endswith("  group billing is Empty: 0 members, lag 0\n")
    typo = run("groups", "watch", "bililng")
    assert (typo.exit_code, typo.stderr) == (
        1,
        "kohort: group bililng: does not exist; did you mean billing?\n",
    )
    assert run("groups", "watch", "billing", "--interval", "0").exit_code == 2


def test_the_watch_goes_on_while_the_broker_is_away(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = KohortError("no response")
    seen: list[Watched | KohortError] = [look(), away, away, look(member("ann", FIRST)), away]

    async def scripted(*_: object) -> Watched:
        found = seen.pop(0)
        if isinstance(found, KohortError):
            raise found
        return found

    monkeypatch.setattr(groups_watch, "_describe", scripted)
    run = runner(capsys, "-b", serve("--memory").address)
    done = run("groups", "watch", "billing", "--count", "5", "--interval", "0.01")
    told = [line.partition("  ")[2] for line in done.output.splitlines()]
    assert told[1:] == ["no response", "ann-1 (ann at /127.0.0.1) joined", "no response"]
    assert done.exit_code == 1
    seen[:] = [away]
    assert run("groups", "watch", "billing", "--count", "5").exit_code == 1
