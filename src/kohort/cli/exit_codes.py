"""Exit codes besides 0; `options.REFUSED` (2) is for wrong options, 128 and more for signals."""

from collections.abc import Mapping
from typing import Final

FAILED: Final = 1
"""It went wrong, or a part of it did."""
FOUND: Final = 3
"""Refused because of the groups' state: members, moved offsets, or more lag than allowed."""

OF_COMMAND: Final[Mapping[str, str]] = {
    "serve": "0 stopped by a signal; 1 not all logs were synced; 2 wrong options or\n"
    "configuration, port or data directory in use",
    "config": "0 done; 1 standard output failed; 2 wrong options or configuration",
    "cluster": "0 done; 1 failed, or a broker did not respond; 2 wrong options",
    "groups": "0 done; 1 failed, or a part of it failed; 2 wrong options, no request was sent;\n"
    "3 refused because of the group's state: it has members, or offsets moved since the plan\n"
    "was made, a difference (diff), lag above --max-lag, a history that does not tell (restore)",
    "topics": "0 done; 1 failed: no broker, no such topic, refused; 2 wrong options",
    "transactions": "0 done; 1 failed: no broker, no such id, refused; 2 wrong options",
    "configs": "0 done; 1 failed: no broker, no such topic, refused; 2 wrong options",
    "users": "0 done; 1 failed: no broker, no such user, refused; 2 wrong options, or a data\n"
    "directory in use",
    "acls": "0 done; 1 failed: no broker, refused, not confirmed; 2 wrong options",
    "certs": "0 done; 2 wrong options, or files that exist or cannot be written",
    "repair": "0 no log is damaged, or all that were are repaired; 1 something could not be\n"
    "read or written; 2 refused: a server has the directory, or it is none; 3 damage was found,\n"
    "and --execute was not given",
    "storage": "0 copied and verified, or a place that can be used; 1 failed, or a place that\n"
    "cannot be used; 2 refused before anything was copied: a server is running, data in the\n"
    "target, a place that cannot be reached, wrong options; 3 the copy differs, or warnings\n"
    "(check)",
    "nodes": "0 done; 1 not done in time; 2 no cluster, no such node or partition, wrong options",
    "consume": "0 done, or ended by a signal; 1 failed: no broker, no such topic, output that\n"
    "cannot be written, a record that does not fit -s; 2 wrong options; 130 or 143 a signal\n"
    "before there was a broker; 141 the reader of the output ended",
    "produce": "0 all sent, also after a signal; 1 a record was not delivered, or a file not\n"
    "read; 2 wrong options; 130 or 143 a signal before there was a broker",
    "spark": "0 done, or a query with --every was ended by a signal; 1 the query failed; 2 wrong\n"
    "options; 130 or 143 a signal ended a query without --every",
    "history": "0 done, or --follow was ended by a signal; 1 failed, with --strict also if\n"
    "records could not be decoded, or the history has no such group; 2 wrong options, or a\n"
    "directory of something else; 3 faults were found (check), or refused: another build writes\n"
    "into the directory, or a group has members (import), or incomplete: compaction has removed\n"
    "records that the answer needs, or rows are unknown (import); 130 or 143 a signal ended a\n"
    "build",
    "record": "0 ended by a signal; 1 the file could not be written; 2 wrong options, a file that\n"
    "exists, or an address in use",
    "replay": "0 all responses are as recorded; 1 failed: no broker, a damaged file; 2 wrong\n"
    "options; 3 some responses differ",
    "conformance": "0 all responses are equal; 1 some differ; 2 wrong options, or no server",
    "completion": "0 done; 1 standard output failed; 2 wrong options",
}
"""Meaning of the exit codes of each command, for the end of its help."""
