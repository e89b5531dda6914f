"""The mark of a partition's directory: `partition.metadata`, by Kafka's name and in its form.

    version: 0
    topic_id: 3hlZVxe5RYeJjPSSBhMCkA

The mark says which topic the directory was made for. A directory without a mark was not made by
Kohort, whatever its name is. Marks came with format 1 of the data directory; version 0.1 made none.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from secrets import token_bytes
from typing import Final
from uuid import UUID

from kohort.log.durability import write_whole

MARK: Final = "partition.metadata"
NEW_MARK: Final = MARK + ".new"
"""A mark while it is being written."""

_VERSION: Final = "0"
_START: Final = f"version: {_VERSION}\ntopic_id: ".encode()
_ID_LENGTH: Final = 22
_MAX_BYTES: Final = 1_024


def new_topic_id() -> UUID:
    """A random id whose text form has no dash, as in Kafka 4.4."""
    while True:
        topic_id = UUID(bytes=token_bytes(16), version=4)
        if "-" not in base64_id(topic_id):
            return topic_id


def new_cluster_id() -> str:
    """Random, in the form of Kafka's."""
    return base64_id(new_topic_id())


def base64_id(topic_id: UUID) -> str:
    """The 22 letters, digits, dashes and underscores that Kafka's tools show an id as."""
    return urlsafe_b64encode(topic_id.bytes)[:22].decode()


def encode_mark(topic_id: UUID) -> bytes:
    """The content of the mark, as Kafka's PartitionMetadataFile writes it."""
    return _START + base64_id(topic_id).encode()


def decode_mark(content: bytes) -> UUID | None:
    """The topic id in a mark, None if `content` is no mark."""
    if content.startswith(_START) and len(content) == len(_START) + _ID_LENGTH:
        return decode_id(content[len(_START) :].decode(errors="replace"))  # as of `encode_mark`
    fields = {
        name.strip(): value.strip()
        for name, _, value in (
            line.partition(":") for line in content.decode(errors="replace").splitlines()
        )
    }
    return decode_id(fields.get("topic_id", "")) if fields.get("version") == _VERSION else None


def decode_id(text: str) -> UUID | None:
    """The id in the form of `base64_id`; None if `text` is none."""
    if len(text) != _ID_LENGTH:
        return None
    try:
        return UUID(bytes=urlsafe_b64decode(text + "=="))
    except ValueError:
        return None


def write_mark(directory: str, topic_id: UUID) -> None:
    """Mark a directory, whole or not at all; `directory` is yet to be synced. Raises OSError."""
    descriptor = os.open(f"{directory}/{NEW_MARK}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_whole(descriptor, encode_mark(topic_id))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(f"{directory}/{NEW_MARK}", f"{directory}/{MARK}")


def read_mark(directory: str) -> UUID | None:
    """The id of the topic that a directory was made for, None if it has no mark. Raises OSError."""
    try:
        descriptor = os.open(f"{directory}/{MARK}", os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return decode_mark(os.read(descriptor, _MAX_BYTES))
    finally:
        os.close(descriptor)
