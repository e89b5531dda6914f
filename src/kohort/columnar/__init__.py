"""Record batches to Arrow at native speed.

    decode(fetched, topic="orders", partition=0) -> pyarrow.RecordBatch

`schema` names the columns (Spark's Kafka source's), `selection` selects batches, and `payloads`
checks, decompresses and gathers them. `kernels` has the loops over bytes, `columns` gives their
buffers to Arrow, and `decoding` combines all of it.

pyarrow and LLVM take a tenth of a second to import, so all names are imported when first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kohort.columnar.decoding import decode, decode_batches
    from kohort.columnar.schema import RECORDS, RECORDS_WITH_HEADERS, record_schema

__all__ = ["RECORDS", "RECORDS_WITH_HEADERS", "decode", "decode_batches", "record_schema"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kohort.columnar import decoding, schema

    return getattr(decoding if name.startswith("decode") else schema, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
