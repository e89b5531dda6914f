"""The loop that finds the fields of records, without copying them.

Like `kernels`, it reads untrusted bytes: every read is checked against the end of its record first.
`kernels.read_records` copies the fields into columns of their own instead.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.compiling import BYTES, INPUT, INT32, INT64, NUMBER, TABLE, kernel
from kohort.columnar.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP,
    POSITION,
    SIZE,
    next_record,
)

Array: TypeAlias = Any
Number: TypeAlias = Any

# Parts of a record: two more are what lies before the key and before the value.
KEY: Final = 1
VALUE: Final = 3
HEADERS: Final = 4
PARTS: Final = 5


@kernel(INPUT, TABLE, NUMBER, NUMBER, INT64, INT64, INT32, BYTES, INT64)
def find_fields(
    data: Array,
    batches: Array,
    from_offset: Number,
    to_offset: Number,
    offsets: Array,
    timestamps: Array,
    bounds: Array,
    validity: Array,
    rows_by_batch: Array,
) -> Number:
    """Find the fields of the records of `batches` that are in [from_offset, to_offset).

    A batch's POSITION and SIZE are those of its decompressed records in `data`. `timestamps` are in
    ms. Part p of the record n is between `bounds` n * PARTS + p and the next one; the bitmap
    `validity`, which the caller has zeroed, says which parts are there. Records without headers
    lack theirs. Returns -1, or the index of a batch that contradicts its header.
    """
    row = np.int64(0)
    bounds[0] = 0
    for index in range(len(batches)):
        position = batches[index, POSITION]
        batch_end = position + batches[index, SIZE]
        base_offset = batches[index, BASE_OFFSET]
        base_timestamp = batches[index, BASE_TIMESTAMP]
        is_append_time = batches[index, ATTRIBUTES] & LOG_APPEND_TIME != 0
        first = row
        for _ in range(batches[index, COUNT]):
            end, timestamp, delta, key, key_size, value, value_size = next_record(
                data, position, batch_end
            )
            if end < 0:
                return index
            key_end, value_end = key + max(key_size, 0), value + max(value_size, 0)
            if value_end == end:
                return index
            offset = base_offset + delta
            if offset >= from_offset and offset < to_offset:
                offsets[row] = offset
                timestamps[row] = (
                    batches[index, MAX_TIMESTAMP] if is_append_time else base_timestamp + timestamp
                )
                part = row * PARTS
                bounds[part + KEY] = key
                bounds[part + KEY + 1] = key_end
                bounds[part + VALUE] = value
                bounds[part + HEADERS] = value_end
                bounds[part + PARTS] = end
                if key_size >= 0:
                    validity[(part + KEY) >> 3] |= np.uint8(1 << ((part + KEY) & 7))
                if value_size >= 0:
                    validity[(part + VALUE) >> 3] |= np.uint8(1 << ((part + VALUE) & 7))
                if data[value_end] != 0 or end - value_end != 1:
                    validity[(part + HEADERS) >> 3] |= np.uint8(1 << ((part + HEADERS) & 7))
                row += 1
            position = end
        if position != batch_end:
            return index
        rows_by_batch[index] = row - first
    return -1
