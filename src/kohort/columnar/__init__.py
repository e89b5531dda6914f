"""Record batches to Arrow at native speed.

    decode(fetched, topic="orders", partition=0) -> pyarrow.RecordBatch

`schema` names the columns (Spark's Kafka source's), `selection` selects batches, and `payloads`
checks, decompresses and gathers them. `kernels` has the loops over bytes, `columns` gives their
buffers to Arrow, and `decoding` combines all of it.

numba takes half a second to import, so `decode` and `decode_batches` are imported when first used.
"""

from typing import TYPE_CHECKING, Any

from kohort.columnar.schema import RECORDS, RECORDS_WITH_HEADERS, record_schema

if TYPE_CHECKING:
    from kohort.columnar.decoding import decode, decode_batches

__all__ = ["RECORDS", "RECORDS_WITH_HEADERS", "decode", "decode_batches", "record_schema"]


def __getattr__(name: str) -> Any:
    if name not in ("decode", "decode_batches"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kohort.columnar import decoding

    return getattr(decoding, name)
