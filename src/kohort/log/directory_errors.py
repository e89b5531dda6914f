"""Error texts for a data directory that cannot be used."""

import os
from pathlib import Path
from typing import Final

_OTHER: Final = "or name another directory with --data (log.dir)"


def unusable_directory(path: Path, error: OSError) -> str:
    """Why the data directory `path` cannot be used, and what to do."""
    return f"the data directory {path} cannot be used: {_reason(path, error)}"


def _reason(path: Path, error: OSError) -> str:
    failed_path = path if error.filename is None else Path(os.fsdecode(error.filename))
    match error:
        case NotADirectoryError() | FileExistsError():
            return f"{_file_in(failed_path)} is no directory; remove it, {_OTHER}"
        case FileNotFoundError() if not path.exists():
            return (
                f"{failed_path} does not exist and cannot be made there; make it yourself, {_OTHER}"
            )
        case PermissionError():
            return (
                f"the user {os.geteuid()} may not use {failed_path} ({error.strerror}); let that "
                f"user in (chown, chmod), {_OTHER}"
            )
    return f"{failed_path}: {error.strerror or error}; mend that, {_OTHER}"


def _file_in(path: Path) -> Path:
    """The part of a path that is no directory."""
    return next(
        (
            parent
            for parent in reversed((path, *path.parents))
            if parent.exists() and not parent.is_dir()
        ),
        path,
    )
