"""The loop that repeats the fields of each batch for its records."""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.compiling import BYTES, INT16, INT32, INT64, TABLE, kernel
from kohort.columnar.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    COUNT,
    LEADER_EPOCH,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TRANSACTIONAL,
)

Array: TypeAlias = Any
Number: TypeAlias = Any

# Kinds of control records in `controls`; `columns.CONTROLS` has their names. 0: a data record.
COMMIT: Final = 1
ABORT: Final = 2
OTHER: Final = 3

_MARKER_KEY_SIZE: Final = 4


@kernel(TABLE, INT32, BYTES, INT64, INT32, INT64, INT16, BYTES, BYTES, BYTES)
def repeat_batch_fields(
    batches: Array,
    key_ends: Array,
    keys: Array,
    base_offsets: Array,
    leader_epochs: Array,
    producer_ids: Array,
    producer_epochs: Array,
    producer_validity: Array,
    transactional: Array,
    controls: Array,
) -> Number:
    """Write the fields of `batches` into columns, once for each of a batch's COUNT records.

    `key_ends` and `keys` are those of the records. The caller zeroes the bitmaps
    `producer_validity` and `transactional`, and `controls`, which has a byte for each record, or is
    empty if there is no control batch. Returns the number of records without a producer id.
    """
    row = bare = np.int64(0)
    for index in range(len(batches)):
        base_offset = batches[index, BASE_OFFSET]
        leader_epoch = np.int32(batches[index, LEADER_EPOCH])
        producer_id = batches[index, PRODUCER_ID]
        producer_epoch = np.int16(batches[index, PRODUCER_EPOCH])
        is_transactional = batches[index, ATTRIBUTES] & TRANSACTIONAL != 0
        is_control = batches[index, ATTRIBUTES] & CONTROL != 0
        for _ in range(batches[index, COUNT]):
            base_offsets[row] = base_offset
            leader_epochs[row] = leader_epoch
            producer_ids[row] = producer_id
            producer_epochs[row] = producer_epoch
            bit = np.uint8(1 << (row & 7))
            if producer_id >= 0:
                producer_validity[row >> 3] |= bit
            else:
                bare += 1
            if is_transactional:
                transactional[row >> 3] |= bit
            if is_control:
                at = key_ends[row]
                kind = OTHER
                if key_ends[row + 1] - at >= _MARKER_KEY_SIZE and keys[at + 2] == 0:
                    if keys[at + 3] == 0:
                        kind = ABORT
                    elif keys[at + 3] == 1:
                        kind = COMMIT
                controls[row] = kind
            row += 1
    return bare
