"""Answers of Kafka's assignors that `record` has recorded."""

import json

from .java import Answer, decoded
from .record import RECORDED


def test_answers_are_those_recorded_of_kafka() -> None:
    for line in RECORDED.read_text().splitlines():
        question, answer = json.loads(line)
        Answer.decoded(answer).check(decoded(question))
