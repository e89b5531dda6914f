"""What is said of a data directory that the file system refuses."""

import errno
import os
from pathlib import Path

import pytest

from kohort.log.directory_errors import unusable_directory
from kohort.log.lock import DirectoryLock


def refusal(path: Path) -> str:
    with pytest.raises(OSError) as refused:
        DirectoryLock(path)
    return unusable_directory(path, refused.value)


@pytest.mark.parametrize("below", ["", "d", "d/e"])
def test_a_file_where_a_directory_is_needed_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    assert refusal(file / below) == (
        f"the data directory {file / below} cannot be used: {file} is no directory; remove it, "
        "or name another directory with --data (log.dir)"
    )


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_a_place_that_takes_no_directories() -> None:
    assert "/proc/x does not exist and cannot be made there" in refusal(Path("/proc/x"))


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (errno.EACCES, f"the user {os.geteuid()} may not use /d/.lock (Permission denied)"),
        (errno.EROFS, "/d/.lock: Read-only file system; mend that"),
        (errno.ENOSPC, "/d/.lock: No space left on device; mend that"),
    ],
)
def test_other_refusals_name_the_place(code: int, told: str) -> None:
    text = unusable_directory(Path("/d"), OSError(code, os.strerror(code), "/d/.lock"))
    assert told in text
    assert "or name another directory with --data" in text
    assert "Errno" not in text


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "t-0"
    error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(gone))
    assert f"{gone}: No such file or directory" in unusable_directory(tmp_path, error)
