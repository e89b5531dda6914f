"""What is said of a statement that failed."""

import pytest

from kohort.cluster import UnknownOutcomeError
from kohort.log.postgres.outcomes import DatabaseError, outcome


def test_a_database_that_does_not_respond():
    with pytest.raises(UnknownOutcomeError, match=r"^no response in time$"), outcome():
        raise TimeoutError


def test_an_error_of_the_database_has_no_number_of_the_system():
    text = "PostgreSQL cannot be reached"
    assert str(DatabaseError(None, text)) == text
