"""All scenarios of the package, found by importing the modules that hold them."""

from __future__ import annotations

import fnmatch
import importlib
import pkgutil
from collections.abc import Iterable

from kohort_conformance import scenarios
from kohort_conformance.scenario import DEFAULT, Scenario, registered


def all_scenarios(profile: str | None = DEFAULT) -> list[Scenario]:
    """The scenarios for servers of `profile`, or for all, by subject in alphabetical order."""
    for module in pkgutil.walk_packages(scenarios.__path__, f"{scenarios.__name__}."):
        importlib.import_module(module.name)
    return [one for one in registered.values() if profile in (None, one.profile)]


def matching(candidates: Iterable[Scenario], patterns: Iterable[str]) -> list[Scenario]:
    """The scenarios whose name matches one of the shell patterns, or all if there are none.

    A pattern without wildcards matches anywhere in a name.
    """
    wanted = [pattern if set(pattern) & set("*?[") else f"*{pattern}*" for pattern in patterns]
    return [
        one
        for one in candidates
        if not wanted or any(fnmatch.fnmatch(one.name, each) for each in wanted)
    ]
