"""Names of topics that records know by id only: groups of KIP-848 own partitions by topic id.

Those of a frame of records are in the metadata of its column `key`. So they stay with the frame
when it is filtered, or is written as Parquet and read again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kohort.errors import ConfigError
from kohort.log.partition_mark import decode_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMN: Final = "key"
METADATA: Final = "kohort.topicNames"


def by_uuid(names: Mapping[Any, str] | None) -> dict[str, str]:
    """The names by ids as records have them; keys are UUIDs or as Kafka's tools show an id.

    Raises ConfigError.
    """
    return {str(_parse(topic_id)): name for topic_id, name in (names or {}).items()}


def _parse(topic_id: object) -> UUID:
    text = str(topic_id)
    found = decode_id(text)
    if found is not None:
        return found
    try:
        return UUID(text)
    except ValueError:
        raise ConfigError(
            f"topic_names: {text!r} is no topic id, as nq6vkYFXTxKqpHfSUGyzWg or as a UUID"
        ) from None


def with_names(records: "DataFrame", names: Mapping[str, str]) -> "DataFrame":
    """The frame of records with names by topic id, besides those that it has."""
    from pyspark.sql.functions import col

    known = {**names_of(records), **names}
    if not known:
        return records
    key = records.schema[COLUMN].metadata | {METADATA: known}
    return records.select(
        *(
            col(name).alias(name, metadata=key) if name == COLUMN else col(name)
            for name in records.columns
        )
    )


def names_of(records: "DataFrame") -> dict[str, str]:
    """The names of a frame of records, by topic id."""
    if COLUMN not in records.columns:
        return {}
    names: dict[str, str] = records.schema[COLUMN].metadata.get(METADATA, {})
    return names
