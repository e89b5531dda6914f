"""Manifests, units, crontabs and rules of docs/history.md: their form, and their commands."""

import argparse
import re
from pathlib import Path

import pytest
import yaml

from docs.blocks import ROOT, Block, run_by
from docs.shell import commands, words
from kohort.cli import history

BLOCKS = run_by(__file__)
METRICS = Path(ROOT / "src/kohort/server/monitoring/metrics.py")


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def kohort_commands(code: str) -> list[list[str]]:
    """The words of each `kohort history` command of a block."""
    parts = [part for line in commands(code) for part in line.split(";")]
    found = [re.search(r"\bkohort history .*", part) for part in parts]
    return [words(each[0])[2:] for each in found if each is not None]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_commands_of_a_block_have_options_that_kohort_reads(block: Block) -> None:
    for arguments in kohort_commands(block.code):
        parser = argparse.ArgumentParser()
        history.add_arguments(parser)
        parser.parse_args(arguments)


def test_service_crontab_and_cron_job_build_and_check() -> None:
    (service,), (crontab,) = of("ini"), of("crontab")
    (job,) = (block for block in of("yaml") if "CronJob" in block.code)
    called = {
        block.language: [arguments[0] for arguments in kohort_commands(block.code)]
        for block in (service, crontab, job)
    }
    assert called == {"ini": ["build"], "crontab": ["check"], "yaml": ["build", "check"]}


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_yaml_of_a_block_is_a_document(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.code), dict)


def test_rules_of_alerts_name_metrics_that_exist() -> None:
    (rules,) = (yaml.safe_load(block.code) for block in of("yaml") if "- alert:" in block.code)
    expressions = " ".join(rule["expr"] for rule in rules["groups"][0]["rules"])
    named = set(re.findall(r"\bkohort_\w+", expressions))
    (crontab,) = of("crontab")
    assert all(f'"{name}"' in METRICS.read_text() for name in named - {"kohort_check"})
    assert 'echo "kohort_check $?"' in crontab.code
