"""The modules, classes and functions that docs/design.md names are those of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src" / "kohort"
DESIGN: Final = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
SECTIONS: Final = dict(
    re.findall(r"^## (.+?)\n(.+?)(?=^## |\Z)", DESIGN, flags=re.MULTILINE | re.DOTALL)
)
WALKS: Final = {
    title: " ".join(text.split())
    for title, text in SECTIONS.items()
    if title.startswith("One ") or title == "Not obvious"
}
MODULES: Final = [path.relative_to(SOURCES).as_posix() for path in sorted(SOURCES.rglob("*.py"))]
OUTSIDE: Final = {
    "__cluster_metadata", "__consumer_offsets", "__transaction_state",  # topics
    "groupMode=member", "maxOffsetsPerTrigger", "transactionalSink",  # options of Spark
    "durability=fsync", "…-stray",
}  # fmt: skip
"""What a walk names that is no module, class, function or field."""


def _names_of(body: ast.AST) -> Iterator[str]:
    """Names that a class or module defines: functions, classes, fields, attributes of `self`."""
    for node in ast.walk(body):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


class Definitions:
    """Names of some source files."""

    def __init__(self, sources: list[str]) -> None:
        self.names: set[str] = set()
        self._members: dict[str, set[str]] = {}
        self._bases: dict[str, set[str]] = {}
        for source in sources:
            tree = ast.parse(source)
            self.names |= {*_names_of(tree)}
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._members.setdefault(node.name, set()).update(_names_of(node))
                    bases = {re.split(r"[.\[]", ast.unparse(base))[-1] for base in node.bases}
                    bases |= {ast.unparse(base).partition("[")[0] for base in node.bases}
                    self._bases.setdefault(node.name, set()).update(bases - {node.name})

    def has(self, name: str) -> bool:
        """Whether `name`, or `Class.member`, is defined; members of bases count."""
        owner, _, member = name.rpartition(".")
        if not owner:
            return name in self.names
        bases = self._bases.get(owner, set())
        return member in self._members.get(owner, set()) or any(
            self.has(f"{base}.{member}") for base in bases
        )


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return Definitions([(SOURCES / module).read_text(encoding="utf-8") for module in MODULES])


def _is_module(name: str) -> bool:
    """Whether a path below `src/kohort`, or a dotted one, is a module or a room."""
    path = name if "/" in name else name.replace(".", "/")
    return (SOURCES / name).exists() or (SOURCES / path).is_dir() or f"{path}.py" in MODULES


def missing(words: list[str], definitions: Definitions) -> list[str]:
    """Those of `words` that are nothing of the code."""
    found = []
    for word in words:
        if word in OUTSIDE or _is_module(word):
            continue
        module, _, name = word.rpartition(".")
        if not definitions.has(word) and not (_is_module(module) and definitions.has(name)):
            found.append(word)
    return found


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_what_is_there(title: str, definitions: Definitions) -> None:
    words = re.findall(r"`([^`]+)`", WALKS[title])
    assert len(words) >= 5
    assert missing(words, definitions) == []


@pytest.mark.parametrize("title", WALKS)
def test_a_step_names_functions_of_its_module(title: str) -> None:
    """A step begins with a module and its function."""
    for module, name in re.findall(r"`([\w/]+\.py)`: `(\w+)`", WALKS[title]):
        assert Definitions([(SOURCES / module).read_text(encoding="utf-8")]).has(name)


def test_groups_commits_logs_and_queries_each_have_a_walk() -> None:
    assert {
        "One JoinGroup through the server", "One offset commit", "One Produce to PostgreSQL",
        "One Spark micro-batch of a group",
    } <= WALKS.keys()  # fmt: skip


def test_a_name_that_is_gone_is_noticed(definitions: Definitions) -> None:
    gone = ["log/gone.py", "PartitionLog.gone_by_now", "gone_by_now", "coordinator.gone_by_now"]
    assert missing([*gone, "PostgresLog.append", "log/partition.py"], definitions) == gone


# --- the map ---


def _paths_of_map() -> list[str]:
    """Modules and rooms of the tree of `src/kohort`, by their indentation."""
    tree = SECTIONS["Rooms"].partition("src/kohort/\n")[2].partition("```")[0]
    paths, rooms = [], [""]
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.match(r" *((?:[\w/]+(?:/|\.py) ?)+)(?: |$)", line)
        if not depth or names is None:
            continue
        del rooms[depth:]
        paths += ["/".join([*filter(None, rooms), name]) for name in names[1].split()]
        if names[1].strip().endswith("/"):
            rooms.append(names[1].strip().rstrip("/"))
    return paths


def _rooms_of_table(section: str) -> list[str]:
    """The names in the first column of the table after `section`."""
    table = SECTIONS["Rooms"].partition(section)[2].lstrip().partition("\n\n")
    rows = table[2] if "|" not in table[0] else table[0]
    cells = [line.split("|")[1] for line in rows.partition("\n\n")[0].splitlines()]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def _rooms_in(room: str) -> set[str]:
    return {path.parent.name for path in (SOURCES / room).glob("*/__init__.py")}


def test_the_map_has_each_room_and_nothing_else() -> None:
    paths = _paths_of_map()
    assert [path for path in paths if not (SOURCES / path).exists()] == []
    assert {path.rstrip("/") for path in paths if path.count("/") == 1} >= _rooms_in("")


@pytest.mark.parametrize(
    ("section", "room"),
    [
        ("Rooms of `server`", "server"),
        ("Modules of `server/cluster`", "server/cluster"),
        ("Rooms of `client`", "client"),
    ],
)
def test_a_table_has_each_room_and_nothing_else(section: str, room: str) -> None:
    names = _rooms_of_table(section)
    assert [name for name in names if not _is_module(f"{room}/{name}")] == []
    assert {*names} >= _rooms_in(room)


@pytest.mark.parametrize("room", ["server", "server/cluster"])
def test_a_table_has_each_module(room: str) -> None:
    modules = {path.stem for path in (SOURCES / room).glob("*.py")} - {"__init__"}
    title = "Modules of" if "/" in room else "Rooms of"
    assert modules - {*_rooms_of_table(f"{title} `{room}`")} == set()
