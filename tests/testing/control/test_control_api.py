"""The control API as a program of any language uses it: HTTP, JSON and an OpenAPI document."""

import http.client
import inspect
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from effort import examples
from kohort.cli.app import run
from kohort.errors import KohortError
from kohort.testing import RemoteKafka, ServerProcess
from kohort.testing.control import brokers, http_api
from kohort.testing.control.openapi import document
from kohort.testing.control.routes import BROKER, ROUTES
from kohort.testing.embedded import verbs
from testing.conftest import CONTROL_OPTIONS
from testing.embedded.wire_member import WireMember, make_stable


class Response(NamedTuple):
    status: int
    value: Any


class Api:
    """Sends requests, and checks that the document describes each response."""

    def __init__(self, control: str) -> None:
        self.control = control

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> Response:
        connection = http.client.HTTPConnection(self.control, timeout=60)
        content = body if isinstance(body, bytes) else json.dumps(body or {})
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "application/json"
        value = json.loads(response.read())
        connection.close()
        _check_described(method, path, response.status, value)
        return Response(response.status, value)


def _check_described(method: str, path: str, status: int, value: object) -> None:
    route = next(
        (
            route
            for route in ROUTES
            if route.method == method and route.match(path.split("/")) is not None
        ),
        None,
    )
    schema: dict[str, Any] = {"$ref": "#/components/schemas/Error"}
    if status == 200:
        if route is None:
            return
        response = document()["paths"][route.path][method.lower()]["responses"]["200"]
        if "content" not in response:
            assert value is None
            return
        schema = response["content"]["application/json"]["schema"]
    described = {**schema, "components": document()["components"]}
    Draft202012Validator(described).validate(value)


@pytest.fixture
def api(control: str) -> Api:
    return Api(control)


@pytest.fixture
def broker(api: Api) -> Any:
    """Path of a broker of the test's own."""
    started = api("POST", "/brokers").value
    yield f"/brokers/{started['broker']}"
    api("DELETE", f"/brokers/{started['broker']}")


def test_the_document_is_valid_openapi(api: Api) -> None:
    served = api("GET", "/openapi.json").value
    validate(served)
    assert served == document()
    operations = [each for path in served["paths"].values() for each in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) == len(ROUTES)
    assert all(operation["summary"].endswith(".") for operation in operations)


def test_every_verb_has_a_route() -> None:
    functions = {
        function
        for name, function in inspect.getmembers(verbs, inspect.isfunction)
        if function.__module__ == verbs.__name__
    }
    assert functions <= {route.function for route in ROUTES}


def test_predicates_are_no_arguments() -> None:
    body = document()["paths"]["/brokers/{broker}/faults/fail"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert {"api", "error", "times", "group"} <= schema["properties"].keys()
    assert "when" not in schema["properties"]
    assert schema["required"] == ["api", "error"]


def test_a_takeover_by_http(api: Api, broker: str) -> None:
    assert api("POST", f"{broker}/topics", {"name": "orders", "partitions": 4}).status == 200
    bootstrap = api("GET", f"{broker}/bootstrap").value
    a, b = WireMember(bootstrap, "a"), WireMember(bootstrap, "b")
    make_stable(a, b)
    waited = api("POST", f"{broker}/groups/billing/wait", {"state": "Stable", "members": 2})
    assert [member["assignment"] for member in waited.value["members"]] == [
        ["orders-0"],
        ["orders-1"],
    ]
    api("POST", f"{broker}/kill", {"member_id": a.member_id})
    ended = api("POST", f"{broker}/groups/billing/advance_until", {"members": 1}).value
    assert ended["rebalances"][-1]["cause"] == "session expired"
    assert ended["explanation"].startswith("PreparingRebalance")
    assert "killed" in api("GET", f"{broker}/timeline").value


def test_records_are_written_and_read(api: Api, broker: str) -> None:
    api("POST", f"{broker}/topics", {"name": "o/r ders", "configs": {"retention.ms": "1"}})
    refused = api("POST", f"{broker}/topics/o%2Fr%20ders/records", {"values": ["cGFpZA=="]})
    assert (refused.status, refused.value["code"]) == (409, "UNKNOWN_TOPIC_OR_PARTITION")
    api("POST", f"{broker}/topics", {"name": "orders"})
    body = {"values": ["cGFpZA==", None], "key": "aw==", "headers": [["h", "MQ=="]]}
    assert api("POST", f"{broker}/topics/orders/records", body).value == 0
    first, second = api("GET", f"{broker}/topics/orders/records").value
    assert (first["value"], first["key"], first["headers"]) == ("cGFpZA==", "aw==", [["h", "MQ=="]])
    assert (second["value"], second["offset"]) == (None, 1)


def test_a_reset_leaves_nothing_but_the_port(api: Api, broker: str) -> None:
    before = api("GET", f"{broker}/bootstrap").value
    api("POST", f"{broker}/topics", {"name": "orders"})
    api("POST", f"{broker}/groups/billing/commit", {"offsets": {"orders-0": 1}})
    api("POST", f"{broker}/faults/drop", {"api": "OffsetCommit"})
    api("POST", f"{broker}/kill", {"client_id": "a"})
    assert api("POST", f"{broker}/faults/verify").status == 409
    assert api("POST", f"{broker}/reset").value["bootstrap"] == before
    assert api("GET", f"{broker}/groups/billing").value["state"] == "Dead"
    assert api("GET", f"{broker}/topics/orders/records").status == 409
    assert api("GET", f"{broker}/faults").value == []
    assert api("POST", f"{broker}/faults/verify").status == 200
    assert api("GET", f"{broker}/timeline").value == ""
    api("POST", f"{broker}/topics", {"name": "orders"})
    make_stable(WireMember(before, "a"))


def test_brokers_share_nothing(api: Api, broker: str) -> None:
    other = api("POST", "/brokers", {"settings": {"num.partitions": 3}}).value["broker"]
    api("POST", f"/brokers/{other}/topics", {"name": "orders"})
    api("POST", f"/brokers/{other}/advance", {"seconds": 3_600})
    assert api("GET", f"{broker}/topics/orders/records").status == 409
    assert api("GET", f"{broker}/timeline").value == ""
    numbers = [each["broker"] for each in api("GET", "/brokers").value]
    assert {other, broker.rpartition("/")[2]} <= set(numbers)
    api("DELETE", f"/brokers/{other}")
    assert api("GET", f"/brokers/{other}/time").status == 404


def test_records_on_disk_are_restarted_and_not_reset(api: Api, tmp_path: Path) -> None:
    settings = {"storage": "local", "log.dir": str(tmp_path / "data")}
    started = api("POST", "/brokers", {"settings": settings}).value
    path = f"/brokers/{started['broker']}"
    api("POST", f"{path}/topics", {"name": "orders"})
    assert api("POST", f"{path}/restart").status == 200
    assert api("GET", f"{path}/bootstrap").value == started["bootstrap"]
    assert api("GET", f"{path}/topics/orders/records").value == []
    refused = api("POST", f"{path}/reset")
    assert (refused.status, "start another one" in refused.value["error"]) == (400, True)
    api("DELETE", path)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "topics", {"nam": "a"}, 400, "no argument 'nam'; did you mean name?"),
        ("POST", "topics", {}, 400, "the body needs: name"),
        ("POST", "topics", [1], 400, "the body is one JSON object"),
        ("POST", "topics", b"{", 400, "the body is not JSON"),
        ("POST", "topics", b"\xff", 400, "the body is not JSON"),
        ("POST", "topics", {"name": 1}, 400, "name: expected a string, not 1"),
        ("POST", "topics", {"name": "a b"}, 409, "a b"),
        ("POST", "advance", {"seconds": "1"}, 400, "seconds: expected a number"),
        ("POST", "kill", {}, 400, "name the client to kill"),
        ("POST", "kill", {"member_id": ""}, 400, "member_id"),
        ("POST", "faults/fail", {"api": "Fech", "error": "NONE"}, 400, "did you mean Fetch?"),
        (
            "POST",
            "faults/fail",
            {"api": "Fetch", "error": "NOT_COORDINATOR"},
            400,
            "can be delayed",
        ),
        ("POST", "restart", {}, 400, "memory"),
        ("GET", "topic", {}, 404, "/openapi.json lists all paths"),
        ("GET", "kill", {}, 405, "has POST, not GET"),
        ("PATCH", "time", {}, 405, "has GET, not PATCH"),
        (
            "POST",
            "groups/billing/wait",
            {"state": "Stable", "timeout": 0.01},
            409,
            "did not reach state=Stable",
        ),
        (
            "POST",
            "groups/billing/advance_until",
            {"state": "Stable", "at_most_seconds": 1},
            409,
            "not reached within 1 s",
        ),
        ("POST", "groups/billing/commit", {"offsets": {"a-0": 1}}, 409, "no topic 'a'"),
    ],
)
def test_errors_say_what_to_do(
    api: Api, broker: str, method: str, path: str, body: object, status: int, text: str
) -> None:
    response = api(method, f"{broker}/{path}", body)
    assert (response.status, text in response.value["error"]) == (status, True), response


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.just(10**30) | st.floats(-1, 1) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
OF_A_BROKER = [
    route
    for route in ROUTES
    if route.path.startswith(f"{BROKER}/")
    and "recordings" not in route.path  # of files
    and route.function is not brokers.Brokers.reset_broker
]


@given(st.data())
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_argument_makes_a_verb_fail_by_itself(
    api: Api, broker: str, data: st.DataObject
) -> None:
    route = data.draw(st.sampled_from(OF_A_BROKER))
    names = st.text(min_size=1, max_size=5)
    in_path = {name: quote(data.draw(names), safe="") for name in route.in_path}
    path = route.path.format_map({**in_path, "broker": broker.rpartition("/")[2]})
    known = {name: JSON for name in route.in_body if name != "timeout"}
    bounded = {"timeout": st.just(0.001)} if "timeout" in route.in_body else {}
    body = data.draw(st.fixed_dictionaries(bounded, optional=known) | JSON)
    assert api(route.method, path, body).status in (200, 400, 409)


def test_a_web_page_controls_nothing(api: Api) -> None:
    assert api("GET", "/brokers", Origin="http://evil.example").status == 403
    assert api("POST", "/brokers", b"{}", Origin="null").status == 403


def test_a_body_without_a_length_and_a_long_one_are_refused(api: Api) -> None:
    assert api("POST", "/brokers", **{"Content-Length": "x"}).status == 411
    too_much = str(http_api.MAX_BODY + 1)
    assert api("POST", "/brokers", **{"Content-Length": too_much}).status == 413


def test_bytes_that_are_not_http_get_an_error_in_json(control: str) -> None:
    host, _, port = control.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"\x00\x00\x00\x10 no http\r\n\r\n")
        assert b'"error": ' in connection.makefile("rb").read()


def test_brokers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "MAX_BROKERS", 1)
    few = brokers.Brokers()
    few.start_broker()
    with pytest.raises(KohortError, match="there are 1 brokers: stop"):
        few.start_broker()
    few.close()
    assert few.list_brokers() == []


def test_a_remote_kafka_may_use_a_broker_that_exists(control: str, api: Api, broker: str) -> None:
    number = broker.rpartition("/")[2]
    api("POST", f"{broker}/topics", {"name": "orders"})
    with RemoteKafka(control, broker=number) as kafka:
        assert kafka.bootstrap == api("GET", f"{broker}/bootstrap").value
        kafka.topic("orders")
    assert api("GET", f"{broker}/topics/orders/records").value == []
    with pytest.raises(KohortError, match="leave out settings or broker"):
        RemoteKafka(control, {"num.partitions": 1}, broker=number)


def test_a_predicate_of_a_remote_fault_is_refused(control: str) -> None:
    with RemoteKafka(control) as kafka, pytest.raises(KohortError, match="when=: a function"):
        kafka.drop("OffsetCommit", when=lambda request: True)


def test_a_missing_process_is_named(control: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*free.getsockname())
        with pytest.raises(KohortError, match=f"no response of the server process at {address}"):
            RemoteKafka(address).start()
    with pytest.raises(KohortError, match="is not HOST:PORT"):
        RemoteKafka("127.0.0.1")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--control"], "add --dev"),
        (["--dev", "--control=0.0.0.0:0"], "everybody who reaches 0.0.0.0:0"),
        (["--dev", "--control=9099"], "--control: '9099' is not HOST:PORT"),
        (["--dev", "--control", "--workers=2"], "one process"),
        (["--dev", "--control", "--storage=postgresql://localhost/k"], "one process"),
    ],
)
def test_the_control_api_is_refused_where_it_would_be_open(
    options: list[str], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *options]) == 2
    assert text in capfd.readouterr().err


def test_a_port_in_use_is_named(control: str, tmp_path: Path) -> None:
    options = ("--dev", f"--control={control}", "--memory")
    with ServerProcess(*options, log=tmp_path / "log") as server:
        assert server.wait() == 2
    assert f"{control} is in use" in (tmp_path / "log").read_text()


def test_clients_get_the_advertised_address(api: Api) -> None:
    settings = {"listeners": "127.0.0.1:0", "advertised.listeners": "localhost:19092"}
    started = api("POST", "/brokers", {"settings": settings}).value
    path = f"/brokers/{started['broker']}"
    assert started["bootstrap"] == "localhost:19092"
    assert api("POST", f"{path}/reset").value == started
    api("DELETE", path)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_exit_code_0(tmp_path: Path, how: signal.Signals) -> None:
    with ServerProcess(*CONTROL_OPTIONS, log=tmp_path / "log") as server:
        with RemoteKafka(server.control, broker="1") as kafka:
            assert kafka.bootstrap == server.address
        assert server.stop(how) == 0


def test_a_server_without_the_api_imports_nothing_of_it() -> None:
    code = (
        "import sys; from kohort.cli import serve, app; import kohort.server.broker; "
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "kohort.server.broker" in imported
    assert not [name for name in imported if name.startswith(("kohort.testing", "http.server"))]
