"""`ssl.principal.mapping.rules`: maps the name in a certificate to a principal (KIP-371).

    RULE:^CN=(.*?),OU=Services.*$/$1/L,DEFAULT

The first rule whose expression matches the whole name decides. The expressions are RE2's, which are
Java's without look-around, back-references and possessive repetition. RE2 takes linear time: the
rule `^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$` of Kafka's documentation takes Python's
`re` or Java hours for a malicious name of 4 KB.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, Self

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)"
    r"/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$(?P<number>[0-9]+)")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: Any
    """Compiled by RE2."""
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if not self.pattern.fullmatch(name):
            return None
        result: str = self.pattern.sub(self._replacement_of, name)
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)

    def _replacement_of(self, match: Any) -> str:
        def expand(reference: re.Match[str]) -> str:
            if reference["literal"] is not None:
                return str(reference["literal"])
            number = reference["number"]
            # As in Java, $12 is group 1 followed by a 2 if there are fewer than 12 groups.
            for end in range(len(number), 0, -1):
                if int(number[:end]) <= self.pattern.groups:
                    return (match[int(number[:end])] or "") + number[end:]
            return f"${number}"

        return _REFERENCE.sub(expand, self.replacement)


@dataclass(frozen=True, slots=True)
class MappingRules:
    """Rules in order; None is DEFAULT."""

    rules: tuple[_Rule | None, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError, whose text completes "NAME: "."""
        rules: list[_Rule | None] = []
        position, stripped = 0, text.strip()
        while position < len(stripped):
            match = _RULE.match(stripped, position)
            if match is None:
                raise ValueError(
                    f"{stripped[position:]!r} is neither RULE:regex/replacement/[LU] nor DEFAULT"
                )
            rules.append(None if match["default"] else _new_rule(match))
            position = match.end()
        if not rules:
            raise ValueError("a rule is needed; DEFAULT takes the whole name")
        return cls(tuple(rules))

    def apply(self, name: str) -> str | None:
        """The name of the principal; None if no rule matches."""
        for rule in self.rules:
            result = name if rule is None else rule.apply(name)
            if result is not None:
                return result
        return None


def _new_rule(match: re.Match[str]) -> _Rule:
    try:
        import re2  # few servers need it
    except ImportError:
        raise ValueError("rules need google-re2: pip install 'kohort[re2]'") from None
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(match["pattern"], options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace")
        raise ValueError(
            f"{match['pattern']!r} is no regular expression of RE2, which has no look-around, "
            f"back-references and possessive repetition: {why}"
        ) from None
    return _Rule(pattern, match["replacement"], match["case"])
