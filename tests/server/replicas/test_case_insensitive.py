"""Topics on a real file system that ignores case."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.local import LocalDirectory
from kohort.server.config.config import Config
from kohort.server.controller import NewTopic, open_controller
from server.handlers.bench import START, batch_of
from server.topic_deletion import delete_topic


def casefold_ext4(image: Path, mounted: Path) -> Path:
    run("mkfs.ext4", "-q", "-O", "casefold", str(image))
    run("mount", "-o", "loop", str(image), str(mounted))
    folder = mounted / "folded"
    folder.mkdir()
    run("chattr", "+F", str(folder))
    return folder


def casefold_tmpfs(_: Path, mounted: Path) -> Path:
    run("mount", "-t", "tmpfs", "-o", "casefold,size=8m", "tmpfs", str(mounted))
    folder = mounted / "folded"
    folder.mkdir()
    run("chattr", "+F", str(folder))
    return folder


def vfat(image: Path, mounted: Path) -> Path:
    run("mkfs.vfat", str(image))
    run("mount", "-o", "loop", str(image), str(mounted))
    return mounted


def run(*command: str) -> None:
    """Raises OSError with the command's own words."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{command[0]}: {done.stderr.strip().splitlines()[0]}")


@pytest.fixture(params=[casefold_ext4, casefold_tmpfs, vfat])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory that ignores case."""
    if os.geteuid():
        pytest.skip("only root can mount a file system")
    image, mounted = tmp_path / "image", tmp_path / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    make: Callable[[Path, Path], Path] = request.param
    try:
        yield make(image, mounted)
    except OSError as error:
        pytest.skip(f"no {make.__name__} here: {error}")
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], capture_output=True)


async def test_topic_names_that_differ_only_in_case_collide(folder: Path, tmp_path: Path) -> None:
    logs = LocalDirectory(folder / "data")
    controller = open_controller(logs, Config(), lambda: START)
    controller.topics.create("orders", 1)
    with pytest.raises(KafkaError, match="collides with existing topic: orders") as caught:
        controller.topics.create("Orders", 1)
    assert caught.value.code is ErrorCode.invalid_topic_exception
    created = await controller.topics.create_topics([NewTopic("A", 1), NewTopic("a", 1)])
    assert [isinstance(each, KafkaError) for each in created] == [False, True]
    controller.replicas.topics.log("orders", 0).append(batch_of(b"a"), START)  # type: ignore[union-attr]
    delete_topic(controller, "orders")
    controller.writer.flush()
    assert controller.topics.create("Orders", 1).partitions[0].end_offset == 0
    await controller.writer.durable()
    logs.close()
    logs = LocalDirectory(folder / "data")
    assert {
        each.name for each in open_controller(logs, Config(), lambda: START).replicas.topics.all()
    } == {
        "A",
        "Orders",
    }
    logs.close()


def test_a_data_directory_from_a_file_system_that_tells_them_apart(
    folder: Path, tmp_path: Path
) -> None:
    logs = LocalDirectory(tmp_path / "apart")
    controller = open_controller(logs, Config(), lambda: START)
    for name in ("orders", "Orders"):
        controller.topics.create(name, 1)
    controller.writer.flush()
    logs.close()
    shutil.copytree(tmp_path / "apart", folder / "data", dirs_exist_ok=True)
    logs = LocalDirectory(folder / "data")
    with pytest.raises(KohortError, match="tells upper from lower case"):
        open_controller(logs, Config(), lambda: START)
    logs.close()
