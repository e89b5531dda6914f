"""Requests of transactions."""

from collections.abc import Mapping
from typing import Final

from live.server.worst_requests.build import MARK, Build, long_text, nested, repeated

WORST: Final[Mapping[str, Mapping[str, Build]]] = {
    "init_producer_id": {"id": long_text("init_producer_id", 1, "transactional_id")},
    "add_partitions_to_txn": {
        "topics": repeated(
            "add_partitions_to_txn",
            3,
            "v3_and_below_topics",
            {"name": MARK, "partitions": [0]},
            elements=2,
            v3_and_below_transactional_id="t",
        ),
        "partitions": nested(
            "add_partitions_to_txn",
            3,
            "v3_and_below_topics",
            {"name": "t0"},
            "partitions",
            0,
            v3_and_below_transactional_id="t",
        ),
        "transactions": repeated(
            "add_partitions_to_txn",
            4,
            "transactions",
            {
                "transactional_id": MARK,
                "producer_id": 1,
                "topics": [{"name": "t0", "partitions": [0]}],
            },
            elements=3,
        ),
    },
    "add_offsets_to_txn": {
        "group": long_text("add_offsets_to_txn", 3, "group_id", transactional_id="t")
    },
    "end_txn": {"id": long_text("end_txn", 5, "transactional_id")},
    "write_txn_markers": {
        "markers": repeated(
            "write_txn_markers",
            1,
            "markers",
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "transaction_result": True,
                "topics": [{"name": MARK, "partition_indexes": [0]}],
            },
            elements=3,
        ),
        "partitions": nested(
            "write_txn_markers",
            1,
            "markers",
            {"producer_id": 1, "producer_epoch": 0, "transaction_result": True},
            "topics",
            {"name": MARK, "partition_indexes": [0]},
            elements=2,
        ),
    },
    "txn_offset_commit": {
        "topics": repeated(
            "txn_offset_commit",
            5,
            "topics",
            {"name": MARK, "partitions": [{"partition_index": 0, "committed_offset": 1}]},
            elements=2,
            transactional_id="t",
            group_id="c",
            generation_id=-1,
        ),
        "partitions": nested(
            "txn_offset_commit",
            5,
            "topics",
            {"name": "t0"},
            "partitions",
            {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"},
            transactional_id="t",
            group_id="c",
            generation_id=-1,
        ),
    },
    "describe_transactions": {
        "ids": repeated("describe_transactions", 0, "transactional_ids", MARK)
    },
    "list_transactions": {"states": repeated("list_transactions", 2, "state_filters", MARK)},
}
