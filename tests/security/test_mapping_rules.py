"""`ssl.principal.mapping.rules`, as `SslPrincipalMapper` of Apache Kafka 4.4 applies them."""

import re
from pathlib import Path
from time import thread_time

import pytest

from kohort.security import MappingRules

NAME = "CN=kafka1,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", NAME),
        ("DEFAULT,", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/ , RULE:^CN=(.*?),OU=.*$/$1@$2/U", "KAFKA1@$2"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2-$3-$12/L", "kafka1@sme-$3-kafka12"),
        ("RULE:^CN=([a-z]*)\\d.*$/$1,x/L,DEFAULT", "kafka,x"),
        ("RULE:(.*)/x$1/", f"x{NAME}x"),
        ("RULE:^CN=(.*)$/\\\\$1/", f"\\{NAME.removeprefix('CN=')}"),
        ("RULE:^CN=.*$/a\\/\\$1\\\\/", "a/$1\\"),
        ("RULE:^CN=(.*?),.*$/$0!/", f"{NAME}!"),
        ("RULE:kafka1/x/", None),
        ("RULE:kafka1/x/,DEFAULT", NAME),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(
    rules: str, principal: str | None
) -> None:
    assert MappingRules.parse(rules).apply(NAME) == principal


@pytest.mark.parametrize("name", ["CN=Client", "CN=Client,OU=data,O=Acme\\, Inc."])
def test_the_rule_of_the_documentation_shortens_names_of_one_part_and_of_several(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    (rules,) = re.findall(r'^"ssl\.principal\.mapping\.rules" = "(.*)"$', page, re.MULTILINE)
    assert MappingRules.parse(rules).apply(name) == "client"


def test_a_hostile_name_is_matched_in_linear_time() -> None:
    """The rules are those of Kafka's documentation; an expression that goes back takes n⁵ steps."""
    rules = MappingRules.parse(
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
        "RULE:^((CN|OU|O|L|ST)=[a-z]*,?)*!$/x/,"
        "DEFAULT"
    )
    name = "CN=a" + ",OU=b,O=c,L=d,ST=e" * 100
    since = thread_time()
    assert rules.apply(name) == name
    assert thread_time() - since < 1


@pytest.mark.parametrize("expression", ["CN=(?!admin).*", "(?<=CN=).*", r"CN=(.)\1", "CN=a++"])
def test_an_expression_that_may_take_long_is_refused_with_the_reason(expression: str) -> None:
    with pytest.raises(ValueError, match="RE2, which has no look-around"):
        MappingRules.parse(f"RULE:{expression}/x/")


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("RULE:^CN=(.*)$/$1/L", "Žluť\\,日本😀"),
        ("RULE:^CN=.*$//", ""),
        ("RULE:^(CN=)(x)?.*$/$2/", ""),
        ("RULE:^CN=.*$/$0$0/", "CN=ŽLUť\\,日本😀" * 2),
    ],
)
def test_names_beyond_ascii_and_names_that_become_empty(rules: str, principal: str) -> None:
    assert MappingRules.parse(rules).apply("CN=ŽLUť\\,日本😀") == (
        principal.lower() if rules.endswith("L") else principal
    )


@pytest.mark.parametrize("rules", ["", "bogus", "RULE:a/b", "RULE:[/x/", "RULE:.*/a/X,DEFAULT"])
def test_text_that_is_no_rule(rules: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|rule|regular expression"):
        MappingRules.parse(rules)
