"""Encodes a Produce request without copying its records: pieces, with the batches among them.

Versions 3 to 12, which name topics; lengths are compact from v9 on (KIP-482).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from kohort.client.produce.batch import ProduceBatch
from kohort.protocol.compression import Buffer
from kohort.protocol.packing import (
    pack_array,
    pack_compact_array,
    pack_compact_string,
    pack_int16,
    pack_int32,
    pack_string,
    pack_varint,
)

VERSIONS: Final = (3, 12)
ZSTD_SINCE: Final = 7
_FLEXIBLE_SINCE: Final = 9


def produce_request(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    batches: Iterable[ProduceBatch],
) -> list[Buffer]:
    """The body in pieces; one batch per partition."""
    by_topic: defaultdict[str, list[ProduceBatch]] = defaultdict(list)
    for batch in batches:
        by_topic[batch.tp.topic].append(batch)
    flexible = version >= _FLEXIBLE_SINCE
    text, array, size, tags = (
        (pack_compact_string, pack_compact_array, _compact_size, b"\0")
        if flexible
        else (pack_string, pack_array, pack_int32, b"")
    )
    pieces: list[Buffer] = [
        text(transactional_id),
        pack_int16(acks),
        pack_int32(timeout_ms),
        array(len(by_topic)),
    ]
    for topic, of_topic in by_topic.items():
        pieces += (text(topic), array(len(of_topic)))
        for batch in of_topic:
            head, payload = batch.encoded()
            pieces += (
                pack_int32(batch.tp.partition),
                size(len(head) + len(payload)),
                head,
                payload,
                tags,
            )
        pieces.append(tags)
    pieces.append(tags)
    return pieces


def _compact_size(size: int) -> bytes:
    return pack_varint(size + 1)
