"""Requests of logins, users and ACLs."""

from collections.abc import Mapping
from typing import Final

from kohort.protocol.messages import encode, request
from live.server.server import framed
from live.server.worst_requests.build import MARK, Build, long_text, repeated

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    "sasl_handshake": {
        "": lambda size: framed(
            "sasl_handshake", 1, encode(request(17, 1, mechanism="m" * min(size, 32_000)))
        )
    },
    "sasl_authenticate": {
        "": lambda size: framed(
            "sasl_authenticate", 2, encode(request(36, 2, auth_bytes=bytes(size)))
        )
    },
    "describe_acls": {
        "name": long_text(
            "describe_acls",
            3,
            "resource_name_filter",
            resource_type_filter=2,
            pattern_type_filter=3,
            operation=2,
            permission_type=3,
        )
    },
    "create_acls": {
        "creations": repeated(
            "create_acls",
            3,
            "creations",
            {
                "resource_type": 2,
                "resource_name": MARK,
                "resource_pattern_type": 3,
                "principal": "User:alice",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            },
        )
    },
    "delete_acls": {
        "filters": repeated(
            "delete_acls",
            3,
            "filters",
            {
                "resource_type_filter": 2,
                "resource_name_filter": MARK,
                "pattern_type_filter": 3,
                "operation": 1,
                "permission_type": 1,
            },
        )
    },
    "describe_user_scram_credentials": {
        "users": repeated("describe_user_scram_credentials", 0, "users", {"name": MARK})
    },
    "alter_user_scram_credentials": {
        "deletions": repeated(
            "alter_user_scram_credentials", 0, "deletions", {"name": MARK, "mechanism": 1}
        ),
        "upsertions": repeated(
            "alter_user_scram_credentials",
            0,
            "upsertions",
            {
                "name": MARK,
                "mechanism": 1,
                "iterations": 4_095,
                "salt": b"s",
                "salted_password": b"p",
            },
        ),
    },
}
