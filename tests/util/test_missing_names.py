"""Names of other clients' classes, and of other packages: the error says where such a class is."""

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import kohort
import kohort.client.sync
import kohort.testing
from kohort import client
from kohort.util import missing_names

PACKAGES: list[ModuleType] = [kohort, kohort.client, kohort.client.sync, kohort.testing]


def errors(package: ModuleType, name: str) -> tuple[str, str]:
    """The texts for `from package import name`, and for `package.name`."""
    with pytest.raises(ImportError) as imported:
        exec(f"from {package.__name__} import {name}")
    with pytest.raises(AttributeError) as used:
        getattr(package, name)
    return str(imported.value), str(used.value)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("KafkaConsumer", "kohort.client.ConsumerGroup is a member of a group, Consumer reads"),
        ("AIOKafkaConsumer", "kohort.client.ConsumerGroup is a member of a group, Consumer reads"),
        ("KafkaProducer", "it is kohort.client.Producer; kohort.client.sync has one"),
        ("AIOKafkaProducer", "it is kohort.client.Producer"),
        ("AdminClient", "it is kohort.client.Admin; kohort.client.sync.run waits"),
        ("KafkaAdminClient", "it is kohort.client.Admin"),
        ("NewTopic", "Admin.create_topic(name, partitions=…)"),
        ("SchemaRegistryClient", "it is kohort.client.schema_registry.SchemaRegistry"),
        ("Broker", "it is kohort.server.broker.Broker"),
    ],
)
def test_classes_of_other_clients(package: ModuleType, name: str, told: str) -> None:
    imported, used = errors(package, name)
    assert imported.startswith(f"cannot import name {name!r} from {package.__name__!r}; {told}")
    assert used.startswith(f"module {package.__name__!r} has no attribute {name!r}; {told}")
    assert not hasattr(package, name)


@pytest.mark.parametrize(
    ("package", "name", "place"),
    [
        (kohort, "Consumer", "kohort.client.Consumer"),
        (kohort, "ServerProcess", "kohort.testing.ServerProcess"),
        (kohort.client.sync, "Admin", "kohort.client.Admin"),
        (kohort.client.sync, "TopicPartition", "kohort.client.TopicPartition"),
        (kohort.client, "ServerProcess", "kohort.testing.ServerProcess"),
        (kohort.testing, "Producer", "kohort.client.Producer"),
    ],
)
def test_names_of_other_packages(package: ModuleType, name: str, place: str) -> None:
    for text in errors(package, name):
        assert text.endswith(f"; it is {place}")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda each: each.__name__)
def test_other_names_have_pythons_own_errors(package: ModuleType) -> None:
    for name in ("Nonsense", "nonsense", "__nonsense__"):
        imported, used = errors(package, name)
        assert imported.startswith(f"cannot import name {name!r} from {package.__name__!r} (")
        assert used == f"module {package.__name__!r} has no attribute {name!r}"


def test_submodules_are_still_imported() -> None:
    for each in pkgutil.iter_modules(client.__path__):
        program = f"from kohort.client import {each.name} as found; assert found.__spec__"
        exec(program)
    code = "from kohort import client, testing; from kohort.client import sync; print('ok')"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "ok\n"


def test_a_module_that_is_not_imported_yet() -> None:
    code = "import kohort; kohort.client.Producer"
    ended = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert ended.stderr.endswith("has no attribute 'client'; import kohort.client first\n")


def test_hints_for_missing_names_are_imported_only_when_needed() -> None:
    code = "import kohort, kohort.client, sys; print('kohort.util.missing_names' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_hints_for_missing_names_refer_to_existing_names() -> None:
    tables: Any = missing_names
    for name, hint in tables._OTHER_CLIENTS.items():
        assert not any(hasattr(each, name) for each in PACKAGES)
        for word in hint.replace(";", " ").replace(",", " ").split():
            if word.startswith("kohort."):
                module, _, attribute = word.rpartition(".")
                found = importlib.import_module(module)
                assert hasattr(found, attribute) or importlib.import_module(word)
    for name, module in tables._ELSEWHERE.items():
        assert hasattr(importlib.import_module(module), name)
