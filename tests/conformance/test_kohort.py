"""Kohort itself, held against the answers that Apache Kafka gave: every scenario, on servers of its own."""

import asyncio

import pytest

from kohort.conformance.reference import load
from kohort.conformance.report import judge
from kohort.conformance.runner import run_all
from kohort.conformance.scenario import PROFILES, all_scenarios
from peers.kohort import kohort


@pytest.mark.parametrize("profile", PROFILES)
def test_every_answer_is_kafkas(profile: str) -> None:
    """Or is argued for in docs/differences.md."""
    with kohort(PROFILES[profile]) as address:
        host, _, port = address.rpartition(":")
        runs = asyncio.run(run_all(host, int(port), all_scenarios(profile)))
    report = judge("Kohort", load(), runs)
    differing = [one for verdict in report.verdicts if verdict.outcome == "differs" for one in verdict.differences]
    told = [f"{one.scenario} {one.step} {one.field}: {one.expected!r}, got {one.got!r}" for one in differing]
    assert not told, "\n".join([report.score, *told])
