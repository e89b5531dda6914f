"""Record answers of Kafka's assignors for tests without Java.

python -m assignors.server.record
"""

import json
from collections import Counter
from pathlib import Path

from .histories import History
from .java import Java, encoded

RECORDED = Path(__file__).parent / "recorded.jsonl"
LONGEST = 3_000
"""Bytes of a question."""
PER_KIND = 6


def main() -> None:
    java = Java()
    lines = []
    kinds = Counter[tuple[str, bool, bool]]()
    for seed in range(200):
        for question in History(seed).questions(8):
            kind = (question.assignor, question.homogeneous, question.replaced is not None)
            asked = encoded(question)
            if kinds[kind] < PER_KIND and len(json.dumps(asked)) < LONGEST:
                kinds[kind] += 1
                lines.append(json.dumps([asked, java.ask(asked)]))
    java.close()
    RECORDED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
