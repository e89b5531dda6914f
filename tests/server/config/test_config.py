"""The configuration: what wins, what is refused, and that every mistake is told at once."""

import re
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kohort
from docs.blocks import Block, run_by
from kohort.cli.app import Parser
from kohort.cli.options import RefusedError, add_arguments, load_config
from kohort.errors import ConfigError
from kohort.server.addresses import parse_listener
from kohort.server.config.config import Config
from kohort.server.config.definition import INT_MAX, ConfigDef, as_text
from kohort.server.config.sources import read_environment, read_sets, read_toml
from kohort.server.config.table import TABLE


def load(*arguments: str) -> Config:
    """What the command line makes of these options, the environment and the file."""
    parser = Parser("kohort serve", None)
    add_arguments(parser)
    return load_config(parser.parse_args(arguments))


# --- the table


def test_defaults_are_kafkas() -> None:
    config = Config()
    assert config["group.min.session.timeout.ms"] == 6_000
    assert config["group.max.session.timeout.ms"] == 1_800_000
    assert config["group.initial.rebalance.delay.ms"] == 3_000
    assert config["group.max.size"] == INT_MAX
    assert config["offsets.topic.num.partitions"] == 50
    assert config["offsets.retention.minutes"] == 10_080
    assert config["offset.metadata.max.bytes"] == 4_096
    assert config["auto.create.topics.enable"] is True
    assert config["message.max.bytes"] == 1_048_588
    assert config["log.cleanup.policy"] == ("delete",)
    assert config["log.retention.ms"] == 7 * 24 * 3_600_000
    assert config.setting("log.retention.ms").source == "default"


@pytest.mark.parametrize("definition", TABLE.values(), ids=TABLE.keys())
def test_each_default_is_valid_and_survives_being_written(definition: ConfigDef) -> None:
    assert definition.parse(definition.default) == definition.default
    text = as_text(definition.default)
    assert definition.parse("" if text is None else text) == definition.default
    assert definition.doc.endswith(".")


def test_every_setting_acts() -> None:
    tables = {"coordinator", "kohort", "log", "security", "socket"}
    room = Path(kohort.__file__).parent / "server" / "config"
    sources = (
        path
        for path in Path(kohort.__file__).parent.rglob("*.py")
        if path not in {room / f"{table}_configs.py" for table in tables} | {room / "table.py"}
    )
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    formatted = set(re.findall(r'\bf"([\w.{}]+)"', code))  # "group.consumer.{bound}.{name}"
    patterns = [
        re.compile(r"[a-z.]+".join(map(re.escape, parts)))
        for parts in (re.split(r"\{\w+\}", text) for text in formatted)
        if len("".join(parts)) >= len(".num.partitions")
    ]
    assert [
        name
        for name in TABLE
        if f'"{name}"' not in code and not any(each.fullmatch(name) for each in patterns)
    ] == []


def test_no_two_names_share_an_environment_variable() -> None:
    assert len({definition.environment for definition in TABLE.values()}) == len(TABLE)


def test_names_that_toml_cannot_hold_side_by_side_are_the_documented_ones() -> None:
    clashing = {one for one in TABLE for other in TABLE if other.startswith(f"{one}.")}
    assert clashing == {"max.connections", "max.connections.per.ip"}


# --- what wins


def test_the_nearer_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text(
        "num.partitions = 2\nlog.segment.bytes = 2097152\n[group]\nmax.size = "
        "5\n[group.min.session]\ntimeout.ms = 7000"
    )
    monkeypatch.setenv("KOHORT_NUM_PARTITIONS", "3")
    monkeypatch.setenv("KOHORT_GROUP_MAX_SIZE", "6")
    config = load("--config", str(file), "--set", "num.partitions=4")
    shown = {
        name: (config[name], config.setting(name).source)
        for name in config
        if config.setting(name).rank
    }
    assert shown == {
        "num.partitions": (4, "--set"),
        "group.max.size": (6, "KOHORT_GROUP_MAX_SIZE"),
        "log.segment.bytes": (2_097_152, "kohort.toml"),
        "group.min.session.timeout.ms": (7_000, "kohort.toml"),
    }


def test_a_flag_wins_over_the_environment_and_set_over_the_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delay = "group.initial.rebalance.delay.ms"
    monkeypatch.setenv("KOHORT_GROUP_INITIAL_REBALANCE_DELAY_MS", "10")
    assert load()[delay] == 10
    assert load("--dev")[delay] == 0
    assert load("--dev", "--set", f"{delay}=20")[delay] == 20


def test_the_last_value_of_a_name_set_twice_wins() -> None:
    assert load("--set", "num.partitions=2", "--set", "num.partitions=3")["num.partitions"] == 3


@pytest.mark.parametrize(
    ("settings", "ms"),
    [
        ({"log.retention.hours": 2}, 7_200_000),
        ({"log.retention.minutes": 2, "log.retention.hours": 2}, 120_000),
        ({"log.retention.ms": 5, "log.retention.minutes": 2}, 5),
        ({"log.retention.hours": -1}, -1),
    ],
)
def test_retention_has_three_units_and_the_finest_wins(settings: dict[str, int], ms: int) -> None:
    assert Config(settings)["log.retention.ms"] == ms


def test_a_coarse_unit_from_a_nearer_source_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOHORT_LOG_RETENTION_MS", "5")
    config = load("--set", "log.retention.hours=1")
    assert config["log.retention.ms"] == 3_600_000
    assert config.setting("log.retention.ms").source == "--set: log.retention.hours"


def test_old_names_set_the_new_ones() -> None:
    assert Config({"broker.id": 7})["node.id"] == 7
    assert Config({"log.roll.hours": 1})["log.roll.ms"] == 3_600_000


# --- what is refused


def refusal(*arguments: str) -> str:
    with pytest.raises(RefusedError) as caught:
        load(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("group.max.sise=3", "--set: group.max.sise: unknown name; did you mean group.max.size?"),
        (
            "num.partitions=0",
            "--set: num.partitions: 0 is out of range: at least 1; the nearest is 1",
        ),
        ("num.partitions=many", "--set: num.partitions: 'many' is not a whole number"),
        ("num.partitions=1_0", "--set: num.partitions: '1_0' is not a whole number"),
        (
            "num.partitions=3000000000",
            "3000000000 does not fit the type int (-2147483648 to 2147483647)",
        ),
        ("num.partitions=", "'' is not a whole number"),
        ("log.cleaner.min.cleanable.ratio=1.5", "1.5 is out of range: 0 to 1; the nearest is 1"),
        ("log.cleaner.min.cleanable.ratio=nan", "is not a number"),
        ("auto.create.topics.enable=yes", "'yes' is neither true nor false"),
        (
            "log.cleanup.policy=compakt",
            "'compakt' is not one of delete | compact; did you mean compact?",
        ),
        ("durability=fsink", "did you mean fsync?"),
        ("listeners=a b://127.0.0.1:1", "the name of a listener has letters, digits, _ and -"),
        ("listeners=OUTSIDE://127.0.0.1:1", "OUTSIDE has no security protocol in listener.secur"),
        ("listeners=SSL://127.0.0.1:1,ssl://127.0.0.1:2", "SSL is there twice"),
        ("listeners=", "a listener is needed"),
        ("advertised.listeners=SSL://a.test:1", "SSL is none of listeners (PLAINTEXT)"),
        ("listener.security.protocol.map=PLAINTEXT:TLS", "is not NAME:PROTOCOL, with one of"),
        ("listener.name.outside.ssl.client.auth=none", "there is no listener outside"),
        ("listener.name.plaintext.num.partitions=1", "unknown name"),
        ("max.connections.per.ip.overrides=127.0.0.1", "is not ADDRESS:NUMBER"),
        ("ssl.enabled.protocols=TLSv1.1", "'TLSv1.1' is not one of TLSv1.2 | TLSv1.3"),
        ("ssl.principal.mapping.rules=RULE:[/x/", "is no regular expression"),
        ("listeners=127.0.0.1", "is not HOST:PORT"),
        ("listeners=127.0.0.1:70000", "is not HOST:PORT"),
        ("listeners=::1:9092", "in brackets, [::1]:9092"),
        ("log.retention.ms=0", "log.retention.ms: 0 is out of range"),
        (
            "group.min.session.timeout.ms=2000000",
            "is more than group.max.session.timeout.ms (1800000)",
        ),
        (
            "group.consumer.session.timeout.ms=44999",
            "group.consumer.session.timeout.ms: 44999 is not between its bounds (45000 to 60000)",
        ),
        ("group.consumer.assignors=", "group.consumer.assignors: an assignor is needed"),
        ("nonsense", "--set nonsense: is not NAME=VALUE"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_would_be_right(pair: str, told: str) -> None:
    assert told in refusal("--set", pair)


def test_every_mistake_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "k.toml"
    file.write_text("num.partitions = 0\nunknown.name = 1\nlog.segment.bytes = true")
    monkeypatch.setenv("KOHORT_GROUP_MAX_SISE", "1")
    told = refusal(
        "--config", str(file), "--set", "group.max.size=-1", "--listen", "nowhere"
    ).splitlines()
    assert told[0] == "6 errors in the configuration:"
    assert {line.strip().split(":")[0] for line in told[1:]} == {
        "k.toml",
        "KOHORT_GROUP_MAX_SISE",
        "--set",
        "--listen",
    }


def test_addresses_that_others_can_reach_need_consent_and_a_name() -> None:
    told = refusal("--listen", "0.0.0.0:9092", "--http", "0.0.0.0:80")
    assert "listeners: 0.0.0.0:9092 can be reached by other machines" in told
    assert "http.listen: 0.0.0.0:80 can be reached" in told
    assert "advertised.listeners: clients cannot connect to 0.0.0.0:9092" in told
    config = load(
        "--listen", "0.0.0.0:9092", "--advertise", "PLAINTEXT://kohort.example:9092", "--insecure"
    )
    (listener,) = config.listeners
    assert listener.advertised == ("kohort.example", 9092)


def test_an_advertised_address_can_have_the_name_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "kafka")
    for advertised, expected in (
        ("PLAINTEXT://{hostname}:29092", ("kafka", 29092)),
        ("{hostname}.example:9092", ("kafka.example", 9092)),
    ):
        config = load("--listen", "0.0.0.0:9092", "--advertise", advertised, "--insecure")
        assert [listener.advertised for listener in config.listeners] == [expected]


@pytest.mark.parametrize(
    "address", ["127.0.0.1:0", "localhost:9092", "[::1]:9092", "PLAINTEXT://127.1.2.3:1"]
)
def test_loopback_addresses_need_none(address: str) -> None:
    assert load("--listen", address).listeners


@pytest.mark.parametrize(
    "flags",
    [
        ("--memory", "--data=somewhere"),
        ("--storage=postgresql://u:secret@db/d", "--data=somewhere"),
        ("--storage=postgresql://u:secret@db/d", "--memory"),
        ("--storage=memory", "--data=somewhere"),
        ("--storage=local", "--memory"),
    ],
)
def test_flags_of_different_places_exclude_each_other(flags: tuple[str, str]) -> None:
    told = refusal(*flags)
    assert all(flag.partition("=")[0] in told for flag in flags)
    assert "choose one" in told
    assert "secret" not in told


def test_a_flag_of_a_place_wins_over_the_environment_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text('storage = "postgresql://of-file/d"')
    of_file = ("--config", str(file))
    assert load(*of_file)["storage"] == "postgresql://of-file/d"
    assert load(*of_file, "--memory")["storage"] == "memory"
    monkeypatch.setenv("KOHORT_STORAGE", "postgresql://of-environment/d")
    assert load(*of_file)["storage"] == "postgresql://of-environment/d"
    in_directory = load(*of_file, "--data", "somewhere")
    assert (in_directory["storage"], in_directory["log.dir"]) == ("local", "somewhere")
    assert load(*of_file, "--memory", "--storage", "memory")["storage"] == "memory"
    assert load("--data", "somewhere", "--set", "storage=memory")["storage"] == "memory"


@pytest.mark.parametrize(
    ("protocol", "settings", "problem"),
    [
        ("PLAINTEXT", (), "nobody is authenticated"),
        ("SASL_PLAINTEXT", (), "nothing is encrypted"),
        ("SSL", (), "clients need no certificate"),
        ("SSL", ("ssl.client.auth=requested",), "clients need no certificate"),
        ("SSL", ("listener.name.outside.ssl.client.auth=required",), None),
        ("SASL_SSL", (), None),
        ("PLAINTEXT", ("insecure=true",), None),
    ],
)
def test_other_machines_reach_listeners_with_tls_and_authentication_only(
    protocol: str, settings: tuple[str, ...], problem: str | None
) -> None:
    given = (
        "listeners=OUTSIDE://192.0.2.1:9093",
        f"listener.security.protocol.map=OUTSIDE:{protocol}",
        *settings,
    )
    options = [word for each in given for word in ("--set", each)]
    if problem is None:
        (listener,) = load(*options).listeners
        assert (listener.name, listener.security_protocol) == ("OUTSIDE", protocol)
    else:
        assert f"OUTSIDE://192.0.2.1:9093 can be reached by other machines, and {problem}" in (
            refusal(*options)
        )


@pytest.mark.parametrize("name", ["super.users", "audit.log.file"])
def test_settings_of_the_authorizer_need_one(name: str) -> None:
    settings = {name: "User:admin"}
    with pytest.raises(ConfigError, match=f"{name}: has no effect without authorizer.class.name"):
        Config(settings)
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert Config(settings | {"authorizer.class.name": standard})[name] == "User:admin"


def test_other_machines_reach_the_http_port_with_tls_and_a_token_only() -> None:
    for settings in (
        {"http.listen": "192.0.2.1:80", "http.token": "sesame"},
        {"http.listen": "https://192.0.2.1:80"},
    ):
        with pytest.raises(ConfigError, match="can be reached by other machines without a token"):
            Config(settings)
    assert Config({"http.listen": "https://192.0.2.1:80", "http.token": "sesame"}).https
    assert Config({"http.listen": "http://127.0.0.1:80"}).https is None


@pytest.mark.parametrize("block", run_by(__file__), ids=str)
def test_the_settings_of_the_documentation_are_valid(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text(block.code)
    problems: list[str] = []
    given = read_toml(file, problems)
    if "listeners" in block.code:  # of a whole file, not a part of one
        Config.of(given, problems)
    assert not problems


def test_the_settings_of_a_listener_are_stronger_than_those_of_all() -> None:
    config = Config(
        {
            "listeners": "127.0.0.1:0,inside://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,Inside:SSL",
            "ssl.client.auth": "requested",
            "listener.name.inside.ssl.client.auth": "required",
            "listener.name.inside.ssl.key.password": "secret",
        }
    )
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT", "INSIDE"]
    assert config.of_listener("INSIDE", "ssl.client.auth") == "required"
    assert config.of_listener("PLAINTEXT", "ssl.client.auth") == "requested"
    assert config.of_listener("INSIDE", "ssl.key.password") == "secret"
    assert "secret" not in repr(config)


# --- the sources


def test_the_environment_of_kubernetes_and_of_the_tests_holds_no_settings() -> None:
    problems: list[str] = []
    variables = (
        "KOHORT_PORT",
        "KOHORT_PORT_9092_TCP_ADDR",
        "KOHORT_SERVICE_HOST",
        "KOHORT_DEMO_EXIT",
        "KOHORT_CONFIG",
    )
    assert read_environment(dict.fromkeys(variables, "1"), problems) == []
    assert problems == []


def test_an_unknown_variable_is_told_with_the_nearest() -> None:
    problems: list[str] = []
    read_environment({"KOHORT_NUM_PARTITION": "1"}, problems)
    assert problems == ["KOHORT_NUM_PARTITION: unknown name; did you mean KOHORT_NUM_PARTITIONS?"]


def test_toml_may_quote_names_which_begin_with_one_another(tmp_path: Path) -> None:
    file = tmp_path / "k.toml"
    file.write_text("max.connections = 5\nmax.connections.per.ip = 3")
    problems: list[str] = []
    assert read_toml(file, problems) == []
    assert len(problems) == 1
    assert "quote both" in problems[0]
    file.write_text('"max.connections" = 5\n"max.connections.per.ip" = 3')
    config = load("--config", str(file))
    assert (config["max.connections"], config["max.connections.per.ip"]) == (5, 3)


@pytest.mark.parametrize("content", [b"\xff", b"a = ", b"[a", b"a = 1\na = 2"])
def test_a_file_that_is_no_toml_is_one_problem(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "k.toml"
    file.write_bytes(content)
    assert len(refusal("--config", str(file)).splitlines()) == 1
    assert str(file) in refusal("--config", str(file))


def test_a_missing_file_is_one_problem(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal("--config", str(tmp_path / "none.toml"))


# --- what clients have set


def test_a_kept_setting_that_is_not_accepted_any_more_takes_no_other_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = Config.of(())
    config.set_dynamic(
        {"message.max.bytes": "5000"}, {"max.connections": "0", "log.retention.ms": "7000"}
    )
    assert (config["message.max.bytes"], config["log.retention.ms"]) == (5_000, 7_000)
    assert config["max.connections"] == INT_MAX
    (record,) = caplog.records
    assert "max.connections: 0 is out of range" in str(vars(record))
    config.with_dynamic({"log.retention.ms": "8000"}, of_all=False)


# --- what must never break

FITTED_TOGETHER = re.compile(
    r".*listen.*|broker\.id|log\.retention\.(ms|minutes|hours)|group\.(min|max)\.session.*"
    r"|group\.consumer\..*|cluster\.enabled|security\.inter\.broker.*"
)
NAMES = st.sampled_from([name for name in TABLE if not FITTED_TOGETHER.fullmatch(name)])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.text()),
    st.binary(),
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_value_is_taken_or_refused_with_the_name(settings: dict[str, object]) -> None:
    if not any(refuses(name, value) for name, value in settings.items()):
        for name, value in Config(settings).items():
            assert TABLE[name].parse(value) == value
        return
    with pytest.raises(ConfigError, match="|".join(map(re.escape, settings))):
        Config(settings)


def refuses(name: str, value: object) -> bool:
    try:
        TABLE[name].parse(value)
    except ValueError:
        return True
    return False


@given(st.text(max_size=30).filter(lambda name: name.strip() not in TABLE), st.text(max_size=30))
def test_any_pair_is_taken_or_refused(name: str, value: str) -> None:
    problems: list[str] = []
    given = read_sets([f"{name}={value}"], problems)
    with pytest.raises(ConfigError, match=re.escape("unknown name")):
        Config.of(given, problems)


@given(st.integers(min_value=-(2**31), max_value=2**31 - 1))
def test_whole_numbers_read_as_python_writes_them(number: int) -> None:
    assert ConfigDef(name="n", kind="int", default=0, doc="").parse(f" {number} ") == number


NAMES_OF_LISTENERS = st.sampled_from(("", "A://", "b://", "SSL://", "A B://", "ß://", "://"))
HOSTS = st.one_of(
    st.sampled_from(("", "0.0.0.0", "127.0.0.1", "[::1]", "::1", "[fe80::1%eth0]", "[a]b]", "[]")),
    st.text(max_size=5),
    st.text("a.-[]:,/ \0é", max_size=70),
)
PORTS = st.sampled_from(("", ":0", ":9092", ":65536", ":٣", ":" + "9" * 5_000))
ADDRESSES = st.one_of(st.text(), st.tuples(NAMES_OF_LISTENERS, HOSTS, PORTS).map("".join))
PROTOCOLS = st.one_of(
    st.text(), st.builds("{}:{}".format, st.sampled_from("AbS"), st.sampled_from(("SSL", "ssl")))
)


def several(entries: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    """A list, or the same as text."""
    return st.one_of(st.lists(entries, max_size=3), st.lists(entries, max_size=3).map(",".join))


@given(listeners=several(ADDRESSES), advertised=several(ADDRESSES), protocols=several(PROTOCOLS))
def test_listeners_are_refused_or_shown_as_they_are_read(
    listeners: object, advertised: object, protocols: object
) -> None:
    consent = {"insecure": True}  # no name is looked up
    try:
        config = Config(
            {
                "listeners": listeners,
                "advertised.listeners": advertised,
                "listener.security.protocol.map": protocols,
                **consent,
            }
        )
    except ConfigError:
        return
    names = ("listeners", "advertised.listeners", "listener.security.protocol.map")
    shown = Config({name: as_text(config[name]) for name in names} | consent)
    assert shown.listeners == config.listeners


@given(ADDRESSES)
def test_an_address_is_refused_or_shown_as_it_is_read(text: str) -> None:
    try:
        name, address = parse_listener(text)
    except ValueError:
        return
    assert parse_listener(f"{name}://{address}" if name else str(address)) == (name, address)


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "a\0b"])
def test_a_host_that_can_be_no_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="listeners: "):
        Config({"listeners": [f"{host}:9092"]})


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"http.listen": "127.0.0.1:9094"}, "http.listen: 127.0.0.1:9094 is a port of PLAINTEXT"),
        ({"advertised.listeners": "h:65534"}, "there are no 3 ports from h:65534 on"),
        ({"listeners": "127.0.0.1:65534"}, "there are no 3 ports from 127.0.0.1:65534 on"),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:9092,OTHER://127.0.0.1:9192",
                "advertised.listeners": "PLAINTEXT://h:9092,OTHER://h:9094",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
            },
            "advertised.listeners: PLAINTEXT and OTHER are too close to each other",
        ),
    ],
)
def test_ports_that_workers_cannot_have(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Config({"listeners": "127.0.0.1:9092", "workers": "3", **settings})
    assert Config({"listeners": "127.0.0.1:9092", **settings}).workers == 1


def test_a_byte_order_mark_is_no_part_of_a_setting(tmp_path: Path) -> None:
    file = tmp_path / "kohort.toml"
    file.write_text('"num.partitions" = 3\n', encoding="utf-8-sig")
    problems: list[str] = []
    (given,) = read_toml(file, problems)
    assert (given.name, given.value, problems) == ("num.partitions", 3, [])
