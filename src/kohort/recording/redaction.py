"""Removes secrets from messages, and on request keys and values of records.

Secrets are removed always: SASL tokens, salted passwords, delegation tokens, and configs with names
of secrets. Keys, values and header values of records are replaced by pseudonyms of the same length:
equal ones stay equal within one recording, so a replay can compare them.
"""

import re
import secrets
from dataclasses import fields, replace
from functools import cache
from hashlib import shake_256
from typing import Any, Final

from kohort.errors import KafkaError
from kohort.protocol.batches import inflate, iterate, replace_records
from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import API_KEYS
from kohort.protocol.records import Record, decode, encode
from kohort.protocol.schema import shape
from kohort.recording.message_fields import class_of

OPAQUE: Final = API_KEYS["envelope"]
"""The API whose requests contain other requests; its frames are not kept."""
_SECRETS: Final = frozenset({"auth_bytes", "salt", "salted_password", "hmac"})
_SECRET_CONFIG: Final = re.compile(r"password|secret|jaas|token|credential|keystore\.key")
REDACTED_CONFIG: Final = "redacted"
_WITH_SECRETS: Final = frozenset(
    API_KEYS[name]
    for name in (
        "sasl_authenticate",
        "alter_user_scram_credentials",
        "create_delegation_token",
        "renew_delegation_token",
        "expire_delegation_token",
        "describe_delegation_token",
        "alter_configs",
        "incremental_alter_configs",
        "describe_configs",
    )
)
_WITH_RECORDS: Final = frozenset(API_KEYS[name] for name in ("produce", "fetch", "share_fetch"))


class Redaction:
    """What one recording leaves out of its frames."""

    def __init__(self, *, values: bool) -> None:
        """`values`: replace keys, values and header values of records, too."""
        self.values = values
        self._key = secrets.token_bytes(32)

    def concerns(self, api_key: int) -> bool:
        """Whether messages of this API have to be decoded and redacted."""
        return api_key in _WITH_SECRETS or (self.values and api_key in _WITH_RECORDS)

    def redacted(self, message: Any) -> tuple[Any, bool]:
        """The message without secrets, and whether it had any; records are no secrets.

        Raises MalformedError for records that cannot be read.
        """
        changes: dict[str, Any] = {}
        had_secrets = False
        for name in _relevant_fields(class_of(message)):
            value = getattr(message, name)
            if name in _SECRETS:
                had_secrets |= bool(value)
                changes[name] = b""
            elif name == "records":
                changes[name] = self._records(value) if self.values else value
            elif name == "value":
                if value is not None and _SECRET_CONFIG.search(message.name):
                    had_secrets, changes[name] = True, REDACTED_CONFIG
            elif value is not None:
                elements = value if isinstance(value, tuple) else (value,)
                done = [self.redacted(element) for element in elements]
                had_secrets |= any(had for _, had in done)
                inner = tuple(element for element, _ in done)
                changes[name] = inner if isinstance(value, tuple) else inner[0]
        return replace(message, **changes) if changes else message, had_secrets

    def _records(self, data: bytes | None) -> bytes | None:
        if data is None:
            return None
        try:
            return b"".join(
                data[position : position + header.size]
                if header.is_control
                else self._batch(data[position : position + header.size], header)
                for position, header in iterate(data)
            )
        except KafkaError as error:
            raise MalformedError(str(error)) from error

    def _batch(self, batch: bytes, header: Any) -> bytes:
        content = bytearray()
        records = decode(
            inflate(batch, header),
            0,
            header.record_count,
            header.base_offset,
            header.base_timestamp,
        )
        for record in records:
            content += encode(
                self._record(record), record.offset - header.base_offset, header.base_timestamp
            )
        return replace_records(header, bytes(content), header.record_count, header.max_timestamp)

    def _record(self, record: Record) -> Record:
        return record._replace(
            key=self._pseudonym(record.key),
            value=self._pseudonym(record.value),
            headers=tuple((name, self._pseudonym(value)) for name, value in record.headers),
        )

    def _pseudonym(self, data: bytes | None) -> bytes | None:
        return data if data is None else shake_256(self._key + data).digest(len(data))


@cache
def _relevant_fields(message_type: Any) -> tuple[str, ...]:
    """Fields that are secrets, values of configs or records, and structs that have some."""
    is_config = "name" in {field.name for field in fields(message_type)}
    relevant = []
    for field in fields(message_type):
        field_shape = shape(field)
        if field_shape.is_struct:
            if _relevant_fields(field_shape.inner):
                relevant.append(field.name)
        elif (
            field.name in _SECRETS
            or field_shape.kafka_type == "records"
            or (field.name == "value" and is_config and field_shape.kafka_type == "string")
        ):
            relevant.append(field.name)
    return tuple(relevant)
