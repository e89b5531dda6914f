"""Clients that want the group protocol of KIP-848 from a server that does not serve it yet: they
say so, and end.
"""

from collections.abc import Callable

import pytest

from interop import targets
from interop.conftest import need
from interop.programs import Client
from interop.roster import named
from interop.targets import Target
from interop.trial import Trial

pytestmark = [
    pytest.mark.interop,
    pytest.mark.clients,
    pytest.mark.timeout(90),
    pytest.mark.skipif(targets.PEER != "", reason="others may serve it"),
]


@pytest.mark.parametrize(
    ("client", "complaint"),
    [
        pytest.param(named("java"), "UnsupportedVersionException", id="java"),
        pytest.param(named("platformatic"), "ConsumerGroupHeartbeat", id="platformatic"),
    ],
)
def test_is_rejected_with_an_explanation(
    client: Client, complaint: str, target: Target, trial_on: Callable[[Target], Trial]
) -> None:
    """Its API is not advertised, so the client knows before it asks."""
    need(client)
    trial = trial_on(target)
    member = trial.member(client, "modern", protocol="consumer")
    assert member.wait(30) != 0
    assert complaint in member.tail() + " ".join(
        failure.what for failure in trial.timeline.failures()
    )
