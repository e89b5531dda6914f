"""The files of examples/cluster: their settings, and three servers that have them."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer

from kohort.cli.app import run
from kohort.testing.server_process import ServerProcess
from server.certificates import Authority

EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster"
PARTITIONS = 6
COMPOSED = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]


def documents() -> list[dict[str, Any]]:
    return [
        document
        for file in sorted((EXAMPLE / "kubernetes").glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
    ]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in documents() if each["kind"] == kind]


def container() -> dict[str, Any]:
    (nodes,) = of_kind("StatefulSet")
    (found,) = nodes["spec"]["template"]["spec"]["containers"]
    return dict(found)


def check(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], *options: str) -> None:
    """`kohort serve` takes these settings."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run(["config", *options, "--output", "json"]) == 0


@pytest.mark.parametrize("service", [name for name in COMPOSED if name != "postgres"])
def test_the_settings_of_compose(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    node = COMPOSED[service]
    check(monkeypatch, node["environment"], *node["command"][1:])
    published = {each.split(":")[1]: each.split(":")[2] for each in node["ports"]}
    advertised = node["environment"]["KOHORT_ADVERTISED_LISTENERS"]
    (port,) = (host for host, inside in published.items() if inside == "9092")
    assert advertised == f"CLIENTS://localhost:{port},NODES://{service}:19092"


def test_the_settings_of_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = {
        "KOHORT_CONFIG": str(EXAMPLE / "kohort.toml"),
        "POD": "kohort-2",
        "NAMESPACE": "default",
        "KOHORT_NODE_ID": "2",
    }
    for each in container()["env"]:
        value = each.get("value", "secret")
        for name in ("POD", "NAMESPACE"):
            value = value.replace(f"$({name})", pod[name])
        pod.setdefault(each["name"], value)
    assert pod.pop("PGPASSWORD") == "secret"
    check(monkeypatch, pod, *container()["args"][1:])
    headless, bootstrap = (
        next(each for each in of_kind("Service") if each["metadata"]["name"] == name)
        for name in ("kohort", "kohort-bootstrap")
    )
    assert f"kohort-2.{headless['metadata']['name']}.default" in pod["KOHORT_ADVERTISED_LISTENERS"]
    open_ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    assert {each["name"]: each["port"] for each in headless["spec"]["ports"]} == open_ports
    assert bootstrap["spec"]["ports"][0]["port"] == open_ports["clients"]


def test_kubernetes_selects_the_nodes() -> None:
    (nodes,) = of_kind("StatefulSet")
    labels = nodes["spec"]["template"]["metadata"]["labels"]
    selectors = [each["spec"]["selector"] for each in of_kind("Service")]
    selectors += [
        each["spec"]["selector"]["matchLabels"] for each in of_kind("PodDisruptionBudget")
    ]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind("NetworkPolicy")]
    assert selectors == [labels] * 4
    mounted = {each["name"] for each in container()["volumeMounts"]}
    assert mounted == {each["name"] for each in nodes["spec"]["template"]["spec"]["volumes"]}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_it() -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(EXAMPLE)], check=True, capture_output=True, text=True
    )
    kinds = [each["kind"] for each in yaml.safe_load_all(built.stdout)]
    assert sorted(kinds) == [
        "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service", "StatefulSet",
    ]  # fmt: skip


def test_the_settings_of_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (EXAMPLE / "systemd" / "kohort.env").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    check(
        monkeypatch,
        environment | {"KOHORT_CONFIG": str(EXAMPLE / "kohort.toml"), "KOHORT_NODE_ID": "1"},
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    unit = (EXAMPLE / "systemd" / "kohort@.service").read_text()
    copied = tmp_path / "kohort@.service"
    copied.write_text(unit.replace("/opt/kohort/bin/kohort", "/bin/true"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copied], capture_output=True, text=True
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def nodes(database: str, tmp_path: Path, authority: Authority) -> Iterator[list[ServerProcess]]:
    """Three servers with kohort.toml, but for the addresses and places of this machine."""
    certificate = authority.issue("server.pem", common_name="kohort-node")

    def start(node: int) -> ServerProcess:
        settings = {
            "node.id": str(node),
            "storage": database,
            "listeners": "CLIENTS://127.0.0.1:0,NODES://127.0.0.1:0",
            "ssl.keystore.location": str(certificate),
            "ssl.truststore.location": str(authority.file),
            "local.socket": str(tmp_path / f"{node}.sock"),
            "http.listen": "https://127.0.0.1:0",
            "cluster.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
        }
        options = ("--config", str(EXAMPLE / "kohort.toml"), "--listen", settings.pop("listeners"))
        return ServerProcess(*options, log=tmp_path / f"{node}.log", settings=settings)

    with ExitStack() as stack:
        yield [stack.enter_context(start(node)) for node in range(3)]


def test_three_nodes_serve_as_the_example_says(
    nodes: list[ServerProcess], authority: Authority, tmp_path: Path
) -> None:
    bootstrap = ",".join(each.address for each in nodes)
    socket = f"unix:{tmp_path / '0.sock'}"
    password = tmp_path / "password"
    password.write_text("secret")
    topic = ["--topic", "orders"]
    alice = ["-b", socket, "--allow-principal", "User:alice", *topic]
    assert run(["topics", "create", *topic, "--partitions", str(PARTITIONS), "-b", socket]) == 0
    assert run(["users", "add", "alice", "-b", socket, "--password-file", str(password)]) == 0
    assert run(["acls", "add", *alice, "--producer"]) == 0
    assert run(["acls", "add", *alice, "--consumer", "--group", "billing"]) == 0
    client = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    producer = Producer(client | {"enable.idempotence": "true"})
    failures: list[Any] = []
    for round_ in range(2):
        for partition in range(PARTITIONS):
            producer.produce(
                "orders",
                b"%d" % round_,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error),
            )
        assert producer.flush(60) == 0
        if not round_:
            nodes[2].stop()
    assert failures == [None] * 2 * PARTITIONS
    consumer = Consumer(client | {"group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found = [consumer.poll(60) for _ in failures]
    consumer.close()
    assert sorted((each.partition(), each.value()) for each in found if each is not None) == [
        (partition, b"%d" % round_) for partition in range(PARTITIONS) for round_ in range(2)
    ]
