"""Names that are not both those of topics."""

import pytest

from kohort.errors import KafkaError
from kohort.server.replicas import ClaimedNames


def test_names_whose_metrics_collide_are_not_both_taken() -> None:
    names = ClaimedNames(is_case_insensitive=False)
    names.claim("a.b_c")
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        names.ensure_free("a.b_c")
    with pytest.raises(KafkaError, match=r"collides with existing topic: a\.b_c"):
        names.ensure_free("a_b.c")
    for free in ("a-b_c", "A.b_c"):
        names.ensure_free(free)
    names.disclaim("a.b_c")
    names.ensure_free("a_b.c")


def test_names_that_are_one_directory_are_not_both_taken() -> None:
    names = ClaimedNames(is_case_insensitive=True)
    names.claim("Orders")
    with pytest.raises(KafkaError, match="collides with existing topic: Orders"):
        names.ensure_free("orders")
