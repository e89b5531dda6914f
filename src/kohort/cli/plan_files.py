"""Plan files: never overwritten, never partly written; at --plan or in the state directory."""

import os
import re
from pathlib import Path
from typing import Final

from kohort.cli.options import RefusedError
from kohort.cli.output import warn
from kohort.client.resets import PlanError, ResetPlan, instant

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]+")
MAX_NAME: Final = 80


def default_path(plan: ResetPlan) -> Path:
    """Path of the plan of an executed reset without --plan, in XDG's state directory."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = _UNUSUAL.sub("_", "+".join(plan.groups))[:MAX_NAME]
    made_at = instant(plan.made_at_ms).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return Path(state) / "kohort" / "resets" / f"{made_at}Z-{name}.json"


def write_new(path: Path, plan: ResetPlan) -> None:
    """Raises RefusedError if the file exists or cannot be written. Called before any change."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(plan.to_json())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise RefusedError(f"{path}: exists, and may be needed to undo an earlier reset") from None
    except OSError as error:
        raise RefusedError(
            f"the plan cannot be written: {error}; name another file by --plan FILE, or give up "
            "the undo by --no-plan"
        ) from None


def rewrite(path: Path, plan: ResetPlan) -> None:
    """Replace the file at once; a failure is only a warning, because the plan was executed."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_text(plan.to_json(), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        warn(f"{path}: has no time of its execution: {error}")


def read(path: Path) -> ResetPlan:
    """Raises RefusedError."""
    try:
        return ResetPlan.from_json(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, PlanError) as error:
        raise RefusedError(f"{path}: {error}") from None
