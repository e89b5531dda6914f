"""Recorded logs of Apache Kafka as DataFrames, and their tables by the fold without Spark."""

import pyarrow as pa
import pytest

from history.folded import folded
from history.recorded import load

RECORDING = "classic"


@pytest.fixture(scope="module")
def recording():
    return load(RECORDING)


@pytest.fixture(scope="module")
def archive(session, recording):
    """All records of the log, as archives have them, with the fields of batches."""

    def frame(log="whole"):
        tables = [recording.records(log, number) for number in recording.log_partitions]
        return session.createDataFrame(pa.concat_tables(tables))

    return frame


@pytest.fixture(scope="module")
def expected(recording):
    """The tables of the fold."""
    return folded(recording, "whole")
