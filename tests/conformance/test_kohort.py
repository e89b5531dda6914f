"""Every scenario on Kohort's own servers, compared with the responses of Apache Kafka."""

import asyncio

import pytest

from kohort_conformance.catalogue import all_scenarios
from kohort_conformance.reference import load
from kohort_conformance.report import judge, verdict
from kohort_conformance.runner import Run, run_twice
from kohort_conformance.scenario import PROFILES
from peers.kohort import kohort

LASTING = {"retention"}
"""Profiles whose scenarios wait for a minute."""


@pytest.mark.parametrize(
    "profile",
    [pytest.param(each, marks=[pytest.mark.long] if each in LASTING else []) for each in PROFILES],
)
def test_every_answer_is_kafkas(profile: str) -> None:
    """Or is argued for in docs/differences.md."""
    reference = load()

    def differs(run: Run) -> bool:
        return verdict(reference, run).outcome == "differs"

    with kohort(PROFILES[profile]) as address:
        host, _, port = address.rpartition(":")
        runs = asyncio.run(run_twice(host, int(port), all_scenarios(profile), differs))
    report = judge("Kohort", reference, runs)
    differing = [
        one for each in report.verdicts if each.outcome == "differs" for one in each.differences
    ]
    told = [
        f"{one.scenario} {one.step} {one.field}: {one.expected!r}, got {one.got!r}"
        for one in differing
    ]
    assert not told, "\n".join([report.score, *told])
