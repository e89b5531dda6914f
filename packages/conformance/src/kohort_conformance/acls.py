"""ACLs as scenarios make them: entries in Kafka's words, in effect when `grant` is back."""

from __future__ import annotations

from typing import Any

from kohort_conformance.stage import SetUpError, Stage

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
THE_CLUSTER = "kafka-cluster"
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12
DENY, ALLOW = 2, 3
ANY = 1


def entry(
    user: str,
    operation: int,
    kind: int,
    name: str = THE_CLUSTER,
    *,
    permission: int = ALLOW,
    pattern: int = LITERAL,
    host: str = "*",
) -> dict[str, Any]:
    """One entry of CreateAcls."""
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": f"User:{user}",
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }


def everything() -> dict[str, Any]:
    """The filter that matches all entries."""
    return {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }


def exactly(one: dict[str, Any]) -> dict[str, Any]:
    """The filter that matches one entry."""
    return {
        "resource_type_filter": one["resource_type"],
        "resource_name_filter": one["resource_name"],
        "pattern_type_filter": one["resource_pattern_type"],
        "principal_filter": one["principal"],
        "host_filter": one["host"],
        "operation": one["operation"],
        "permission_type": one["permission_type"],
    }


async def grant(stage: Stage, *entries: dict[str, Any]) -> None:
    """Make these entries, unrecorded, and wait until they are in effect."""
    if not entries:
        return
    maker = await stage.client("acl maker")
    told = await maker.quiet("CreateAcls", 3, creations=entries)
    if any(one["error_code"] != "NONE (0)" for one in told["results"]):
        raise SetUpError(f"CreateAcls: {told['results']}")
    stage.acls += map(exactly, entries)

    async def in_effect() -> bool:
        for one in entries:
            if not (await maker.quiet("DescribeAcls", 3, **exactly(one)))["resources"]:
                return False
        return True

    await stage.until("ACLs are in effect", in_effect)


async def revoke(stage: Stage, *entries: dict[str, Any]) -> None:
    """Delete these entries, unrecorded, and wait until they are gone."""
    maker = await stage.client("acl remover")
    await maker.quiet("DeleteAcls", 3, filters=[exactly(one) for one in entries])

    async def gone() -> bool:
        for one in entries:
            if (await maker.quiet("DescribeAcls", 3, **exactly(one)))["resources"]:
                return False
        return True

    await stage.until("ACLs are gone", gone)
