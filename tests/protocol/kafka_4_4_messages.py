"""Messages of Apache Kafka 4.4, and their bytes as its own classes write them.

    PYTHONPATH=tests python -m protocol.kafka_4_4_messages

runs `KafkaMessages.java` with the JARs of 4.4.0, and writes the bytes of `MESSAGES` to
`kafka_4_4_messages.txt`, a line per message.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from peers import kafka

HERE = Path(__file__).parent
RECORDED = HERE / "kafka_4_4_messages.txt"

_TOPIC_ID = "AQIDBAUGBwgJCgsMDQ4PEA"
_ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_OFFSETS = [
    {
        "partitionIndex": 0,
        "committedOffset": 1 << 40,
        "committedLeaderEpoch": 7,
        "committedMetadata": "m\u00e9ta",
    },
    {
        "partitionIndex": 1 << 20,
        "committedOffset": 0,
        "committedLeaderEpoch": -1,
        "committedMetadata": None,
    },
]

MESSAGES: list[tuple[str, int, dict[str, Any] | None]] = [
    ("ApiVersionsRequest", 5, None),
    (
        "ApiVersionsRequest",
        5,
        {
            "clientSoftwareName": "kohort",
            "clientSoftwareVersion": "1.0",
            "clusterId": "4L6g3nShT-eMCtK--X86sw",
            "nodeId": 3,
        },
    ),
    (
        "ApiVersionsRequest",
        5,
        {
            "clientSoftwareName": "n" * 200,
            "clientSoftwareVersion": "",
            "clusterId": None,
            "nodeId": -1,
        },
    ),
    ("ApiVersionsResponse", 5, None),
    (
        "ApiVersionsResponse",
        5,
        {
            "errorCode": 129,
            "apiKeys": [
                {"apiKey": 18, "minVersion": 0, "maxVersion": 5},
                {"apiKey": 28, "minVersion": 0, "maxVersion": 6},
            ],
            "throttleTimeMs": 12,
            "supportedFeatures": [{"name": "share.version", "minVersion": 0, "maxVersion": 2}],
            "finalizedFeaturesEpoch": 9,
            "finalizedFeatures": [
                {"name": "metadata.version", "maxVersionLevel": 33, "minVersionLevel": 33}
            ],
            "zkMigrationReady": True,
        },
    ),
    ("TxnOffsetCommitRequest", 6, None),
    (
        "TxnOffsetCommitRequest",
        6,
        {
            "transactionalId": "transfers",
            "groupId": "orders",
            "producerId": 1 << 33,
            "producerEpoch": 5,
            "generationIdOrMemberEpoch": 17,
            "memberId": "consumer-1",
            "groupInstanceId": "static",
            "topics": [
                {"topicId": _TOPIC_ID, "partitions": _OFFSETS},
                {"topicId": _ZERO_ID, "partitions": []},
            ],
        },
    ),
    ("TxnOffsetCommitResponse", 6, None),
    (
        "TxnOffsetCommitResponse",
        6,
        {
            "throttleTimeMs": 3,
            "topics": [
                {
                    "topicId": _TOPIC_ID,
                    "partitions": [
                        {"partitionIndex": 0, "errorCode": 0},
                        {"partitionIndex": 1, "errorCode": 113},
                    ],
                },
                {"topicId": _ZERO_ID, "partitions": []},
            ],
        },
    ),
    ("DeleteGroupsRequest", 3, None),
    ("DeleteGroupsRequest", 3, {"groupsNames": ["a", "", "g" * 130]}),
    ("DeleteGroupsResponse", 3, None),
    (
        "DeleteGroupsResponse",
        3,
        {
            "throttleTimeMs": 0,
            "results": [
                {"groupId": "a", "errorCode": 0, "errorMessage": None},
                {"groupId": "b", "errorCode": 68, "errorMessage": "The group is not empty."},
            ],
        },
    ),
]
"""Class, version and fields by Kafka's names; None for a message without any values."""


def recorded() -> list[bytes]:
    """The bytes of each of `MESSAGES` by Kafka."""
    return [bytes.fromhex(line) for line in RECORDED.read_text().splitlines()]


def main() -> None:
    libs = kafka.resolve(version="4.4.0")
    lines = "\n".join(json.dumps(message) for message in MESSAGES)
    done = subprocess.run(
        ["java", "-cp", f"{libs}/*", str(HERE / "KafkaMessages.java")],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    RECORDED.write_text(done.stdout)


if __name__ == "__main__":
    main()
