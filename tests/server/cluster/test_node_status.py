"""What is told of a node, and of the others that it sees come and go."""

import logging

import pytest

from kohort.cluster import Endpoint, NodeRegistered
from kohort.server.cluster.node_status import MembershipLogger, NodeStatus
from kohort.types import Timestamp


def registered(node: int, session: int = 1, *, is_draining: bool = False) -> NodeRegistered:
    endpoints = (Endpoint("PLAINTEXT", f"node{node}.example", 9092),)
    return NodeRegistered(node, session, endpoints, Timestamp(0), is_draining=is_draining)


class TestNews:
    @pytest.mark.parametrize(
        ("before", "after", "told"),
        [
            ([1], [1, 2], ["node joined the cluster"]),
            ([1, 2], [1], ["node left the cluster"]),
            ([1, 2, 3], [1], ["node left the cluster"] * 2),
            ([1, 2], [1, 2], []),
            ([1], [], []),
        ],
    )
    def test_joining_and_leaving_nodes_are_logged(
        self,
        before: list[int],
        after: list[int],
        told: list[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        logger = MembershipLogger(1)
        logger.update({node: registered(node) for node in before})
        caplog.set_level(logging.INFO)
        logger.update({node: registered(node) for node in after})
        assert caplog.messages == told

    def test_draining_and_restarted_nodes_are_logged_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        logger = MembershipLogger(1)
        logger.update({})
        logger.update({2: registered(2)})
        logger.update({2: registered(2, is_draining=True)})
        logger.update({2: registered(2, is_draining=True)})
        logger.update({2: registered(2, session=2)})
        assert caplog.messages == [
            "node joined the cluster",
            "node is draining",
            "node joined the cluster",
        ]
        told = caplog.records[0].__dict__["kohort_fields"]
        assert told == {"other": 2, "addresses": ["node2.example:9092"]}

    def test_nodes_that_were_there_first_are_logged_in_one_line(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        MembershipLogger(1).update({each: registered(each) for each in (1, 3, 2)})
        (line,) = caplog.records
        assert line.getMessage() == "other nodes are in the cluster"
        assert line.__dict__["kohort_fields"] == {"others": [2, 3]}


def test_a_node_that_cannot_register_tells_why() -> None:
    node = NodeStatus(has_lease=True, error="too many connections")
    assert node.reasons() == ["this node cannot register: too many connections"]
