"""What Spark logs in sessions of `spark_session`."""

from unittest.mock import MagicMock

import pytest

from kohort.spark.session import quieten


@pytest.fixture(autouse=True)
def no_logging_of_the_user(monkeypatch):
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def spark(**settings):
    session = MagicMock()
    session.sparkContext.getConf().contains = {f"spark.{name}" for name in settings}.__contains__
    return session


def test_spark_logs_failed_tasks_only():
    session = spark()
    quieten(session)
    session.sparkContext.setLogLevel.assert_called_once_with("OFF")


def test_a_log_level_of_the_user_is_kept():
    session = spark(**{"log.level": "INFO"})
    quieten(session)
    session.sparkContext.setLogLevel.assert_not_called()


@pytest.mark.parametrize(("name", "below"), [("SPARK_HOME", "conf"), ("SPARK_CONF_DIR", "")])
def test_a_logging_configuration_of_the_user_is_kept(tmp_path, monkeypatch, name, below):
    monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / below).mkdir(exist_ok=True)
    (tmp_path / below / "log4j2.xml").touch()
    session = spark()
    quieten(session)
    session.sparkContext.setLogLevel.assert_not_called()
