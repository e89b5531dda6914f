"""The catalogue of rules, against the rules and the documentation."""

from dataclasses import fields
from pathlib import Path

import kohort.findings
from kohort.findings.catalogue import RULES
from kohort.findings.finding import SEVERITIES, Position, shortened
from kohort.findings.search import ALL_RULES, id_of
from kohort.findings.thresholds import Thresholds

PAGE = Path(__file__).parents[2] / "docs" / "history.md"
ROOM = Path(str(kohort.findings.__file__)).parent


def test_every_rule_of_the_catalogue_is_a_function():
    assert sorted(id_of(rule.__name__) for rule in ALL_RULES) == sorted(RULES)
    assert {rule.severity for rule in RULES.values()} == set(SEVERITIES)


def test_the_table_of_the_documentation_is_the_catalogue():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and line.count("|") == 5
    ]
    documented = {row[0].strip("`"): row[1:] for row in rows if row[0].strip("`") in RULES}
    assert documented == {
        rule.id: [rule.severity, rule.described(Thresholds()), rule.advice]
        for rule in RULES.values()
    }


def test_every_threshold_is_used():
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in ROOM.glob("*.py")
        if path.name not in ("thresholds.py", "catalogue.py")
    )
    assert [field.name for field in fields(Thresholds) if f".{field.name}" not in source] == []


def test_evidence_has_a_bound():
    evidence = [Position(1, offset) for offset in range(1_000)]
    chosen = shortened(evidence + evidence)
    assert len(chosen) == 20
    assert (chosen[0], chosen[-1]) == (evidence[0], evidence[-1])
