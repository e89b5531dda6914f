"""Message classes of Apache Kafka 4.4 that kio does not have yet, in kio's form.

kio generates its classes from Kafka's message definitions. These classes have the names, fields and
defaults of the definitions in `kafka-clients` 4.4.0. A test fails as soon as kio has one of them.

Source: KIP-1242 (ApiVersions v5), KIP-1319 (TxnOffsetCommit v6), DeleteGroups v3.
"""

from typing import Final

VERSIONS: Final = frozenset({(18, 5), (28, 6), (42, 3)})
"""API key and version of each request and response that is defined here."""
