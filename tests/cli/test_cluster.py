"""`kohort cluster` against `kohort serve`."""

import pytest

from cli.running import runner
from cli.served import Serve, endpoint


def test_nodes_features_and_numbers(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    address = serve("--memory", "--dev").address
    run = runner(capsys, "-b", address)
    run("topics", "create", "orders", "--partitions", "3")
    committed = ("-G", "billing", "-X", "auto.offset.reset=earliest", "-e", "-q", "orders")
    assert run("consume", *committed).exit_code == 0
    (topics,) = (len(run("topics", "list").output.splitlines()) - 1,)
    told = run("cluster", "--output", "json").json
    (node,) = told["nodes"]
    assert (node["host"], node["port"]) == endpoint(address)
    assert node["node"] == told["controller"]
    assert (told["topics"], told["groups"]) == (topics, 1)
    assert node["leads"] == told["partitions"] > 3
    assert told["features"]["group.version"] == 1
    shown = run("cluster")
    assert shown.exit_code == 0
    assert shown.rows[0]["CONTROLLER"] == "yes"
    assert f"kohort: cluster {told['cluster_id']}: topics {topics}, partitions " in shown.stderr
    assert "group.version 1" in shown.stderr
