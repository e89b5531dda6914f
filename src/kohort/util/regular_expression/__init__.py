r"""Regular expressions that clients send, in the syntax of RE2/J, which Kafka uses.

A text matches if all of it does. Matching takes time in proportion to the text: an expression
becomes a nondeterministic automaton, whose sets of states are kept as they come (a lazy DFA, as in
RE2). There is nothing to backtrack over, so look-around, back-references, possessive repetition and
atomic groups do not exist.

Supported: literals, `.`, alternatives, groups (plain, named, with flags `imsU`), `* + ? {n,m}` and
their lazy forms, classes with ranges, `\d \s \w`, `[:alpha:]` and its like, general categories
and scripts of Unicode (`\pL`, `\p{Greek}`), `^ $ \A \z \b \B`, `\Q…\E`, escapes of characters. Not
supported, unlike in RE2/J: expressions that exceed the limits.

`syntax` parses an expression to operations, `automaton` executes them and matches,
`character_classes` says what a class holds.
"""

from kohort.util.regular_expression.errors import RegularExpressionError
from kohort.util.regular_expression.expression import MAX_BYTES, RegularExpression

__all__ = ["MAX_BYTES", "RegularExpression", "RegularExpressionError"]
