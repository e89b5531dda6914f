"""What options and properties files of other clients make of a connection."""

import argparse
from pathlib import Path

import pytest

from kohort.cli.client_options import add_client_arguments, client_config
from kohort.cli.options import RefusedError
from kohort.client.config import ClientConfig
from kohort.server.config import read_environment
from kohort.util.text import closest


def config(*words: str) -> ClientConfig:
    parser = argparse.ArgumentParser()
    add_client_arguments(parser)
    return client_config(parser.parse_args(words))


def test_a_flag_wins_over_x_and_that_over_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=a:1\nclient.id=file\nretry.backoff.ms = 7\nauto.offset.reset=earliest\n"
    )
    of_file = config("-F", str(file))
    assert (of_file.servers, of_file.client_id, of_file.retry_backoff_ms) == (
        (("a", 1),),
        "file",
        7,
    )
    of_all = config(
        "-F", str(file), "-X", "client.id=x", "-X", "bootstrap.servers=b:2", "-b", "c:3,d:4"
    )
    assert (of_all.servers, of_all.client_id) == ((("c", 3), ("d", 4)), "x")
    assert config().servers == (("localhost", 9092),)


def test_an_option_wins_over_a_file_that_spells_it_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "metadata.broker.list=a\nbootstrap.servers=a\nsocket.timeout.ms=5\n"
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nlinger.ms=1\n"
        "queue.buffering.max.ms=2\n"
        'sasl.jaas.config=PlainLoginModule required username="ann" password="of file";\n'
    )
    of_file = ("-F", str(file))
    given = ("sasl.mechanisms=SCRAM-SHA-256", "sasl.password=p", "request.timeout.ms=7")
    found = config(*of_file, *(word for each in given for word in ("-X", each)))
    security = found.security
    assert (security.mechanism, security.username, security.password) == (
        "SCRAM-SHA-256", "ann", "p",
    )  # fmt: skip
    assert (found.servers, found.request_timeout_ms) == ((("a", 9092),), 7)
    for words in (("-X", "metadata.broker.list=b"), ("-b", "b")):
        assert config(*of_file, *words).servers == (("b", 9092),)
    assert config(*of_file, "-X", "metadata.broker.list=b", "-b", "c").servers == (("c", 9092),)


def test_a_server_without_a_port_has_kafkas() -> None:
    assert config("-b", "a, b:1,[::1],PLAINTEXT://c").servers == (
        ("a", 9092),
        ("b", 1),
        ("::1", 9092),
        ("c", 9092),
    )
    assert config("-X", "metadata.broker.list=a").servers == (("a", 9092),)


def test_timeouts_by_librdkafkas_names() -> None:
    words = ("socket.timeout.ms=5", "topic.metadata.refresh.interval.ms=6")
    found = config(*(word for each in words for word in ("-X", each)))
    assert (found.request_timeout_ms, found.metadata_max_age_ms) == (5, 6)


def test_the_timeout_bounds_each_request_too() -> None:
    assert config("--timeout", "500").request_timeout_ms == 500
    assert config("--timeout", "90000").request_timeout_ms == 30_000
    assert config("--timeout", "90000").default_api_timeout_ms == 90_000


def test_a_login_as_java_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.endpoint.identification.algorithm=\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '    username="me" \\\n    password="a\\\\"b=c";\n'
    )
    security = config("-F", str(file)).security
    assert (security.protocol, security.mechanism) == ("SASL_SSL", "PLAIN")
    assert (security.username, security.password) == ("me", 'a"b=c')
    assert not security.ssl_check_hostname


def test_a_login_as_librdkafka_has_it() -> None:
    words = (
        "security.protocol=sasl_plaintext",
        "sasl.mechanisms=SCRAM-SHA-256",
        "sasl.username=me",
        "sasl.password=pw",
    )
    security = config(*(word for each in words for word in ("-X", each))).security
    assert (security.protocol, security.mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-256")
    assert (security.username, security.password) == ("me", "pw")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("option", ["--security", "--command-config", "KOHORT_SECURITY"])
def test_a_file_by_any_of_its_names(
    option: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
                    "sasl.username=me\nsasl.password=pw\n", encoding)  # fmt: skip
    words = (option, str(file)) if option.startswith("-") else ()
    monkeypatch.setenv("KOHORT_SECURITY", "nowhere" if words else str(file))
    assert config(*words).security.username == "me"


def test_an_environment_that_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOHORT_SECURITY", "/nowhere/file")
    with pytest.raises(RefusedError, match="KOHORT_SECURITY /nowhere/file: cannot be read"):
        config()


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of profiles, with one of the name prod."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "kohort"
    directory.mkdir()
    (directory / "prod.properties").write_text("bootstrap.servers=prod:1\nclient.id=p\n")
    return directory


def test_servers_of_the_environment(
    tmp_path: Path, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    monkeypatch.setenv("KOHORT_BOOTSTRAP", "env")
    assert config().servers == (("env", 9092),)
    for words in (
        ("-b", "file:1"), ("-X", "bootstrap.servers=file:1"), ("-F", str(file)),
    ):  # fmt: skip
        assert config(*words).servers == (("file", 1),)
    monkeypatch.setenv("KOHORT_SECURITY", str(file))
    assert config().servers == (("env", 9092),)
    monkeypatch.setenv("KOHORT_PROFILE", "prod")
    assert (config().servers, config().client_id) == ((("env", 9092),), "p")
    assert config("--profile", "prod").servers == (("prod", 1),)
    monkeypatch.delenv("KOHORT_BOOTSTRAP")
    assert config().servers == (("prod", 1),)
    assert config("-F", str(file)).servers == (("file", 1),)


def test_a_profile_that_there_is_not(profiles: Path) -> None:
    with pytest.raises(RefusedError, match=r"there is no .*/prdo\.properties; did you mean prod\?"):
        config("--profile", "prdo")
    with pytest.raises(RefusedError, match="--command-config and --profile: choose one"):
        config("--profile", "prod", "-F", "file")


def test_a_file_in_place_of_the_name_of_a_profile(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(profiles.parent)
    Path("staging").touch()
    for name in ("prod.properties", "staging", "./staging", "/nowhere/staging.properties"):
        with pytest.raises(
            RefusedError, match=r"is a file, not the NAME of .*/kohort/NAME.p"
        ) as info:
            config("--profile", name)
        assert f"; --command-config {name} reads a file" in str(info.value)
        is_known = name == "prod.properties"
        assert (", and --profile prod is a profile" in str(info.value)) == is_known
    monkeypatch.setenv("KOHORT_PROFILE", "/etc/staging.properties")
    with pytest.raises(
        RefusedError, match=r"; KOHORT_SECURITY /etc/staging.properties reads a file"
    ):
        config()


def test_the_environment_of_a_client_is_no_setting_of_a_server() -> None:
    problems: list[str] = []
    given = read_environment({"KOHORT_BOOTSTRAP": "a:1", "KOHORT_PROFILE": "p"}, problems)
    assert (given, problems) == ([], [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-X", "client.id"), "-X client.id: is not NAME=VALUE"),
        (("-X", "client.di=x"), "unknown property; did you mean client.id?"),
        (("-X", "retry.backoff.ms=soon"), "retry.backoff.ms=soon: is not a number of milliseconds"),
        (("-X", "security.protocol=TLS"), "security protocol 'TLS'"),
        (("-X", "client.id=a", "-X", "client.id=b"), "-X client.id: is given twice"),
        (
            ("-X", "socket.timeout.ms=5", "-X", "request.timeout.ms=6"),
            "options socket.timeout.ms and request.timeout.ms contradict each other",
        ),
        (("-X", "security.protocol=SASL_SSL"), "option sasl.mechanism is missing"),
        (("-b", "nowhere:"), "'nowhere:' is not HOST:PORT"),
        (
            ("-X", "queue.buffering.max.messages=5"),
            "-X queue.buffering.max.messages: is a librdkafka property that kohort does not "
            "support; leave it out",
        ),
        (("-F", "/nowhere/file"), "--command-config /nowhere/file: cannot be read"),
    ],
)
def test_wrong_client_options_are_refused(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(RefusedError, match=told):
        config(*words)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("--bootstrp", "--bootstrap"), ("--port", None), ("--nonsense", None), ("--mem", "--memory")],
)
def test_dashes_make_no_option_like_another(wrong: str, meant: str | None) -> None:
    assert closest(wrong, ["--bootstrap", "--memory", "--insecure"]) == meant


def test_properties_of_the_recovery_of_metadata() -> None:
    words = (
        "metadata.recovery.strategy=NONE",
        "metadata.recovery.rebootstrap.trigger.ms=7",
        "metadata.cluster.check.enable=false",
    )
    found = config(*(word for each in words for word in ("-X", each)))
    assert found.metadata_recovery_strategy == "none"
    assert found.metadata_recovery_rebootstrap_trigger_ms == 7
    assert not found.metadata_cluster_check_enable
    assert config().rebootstraps
    assert config().metadata_cluster_check_enable


@pytest.mark.parametrize(
    "word", ["metadata.recovery.strategy=never", "metadata.cluster.check.enable=maybe"]
)
def test_values_of_the_recovery_of_metadata_are_checked(word: str) -> None:
    with pytest.raises(RefusedError):
        config("-X", word)
