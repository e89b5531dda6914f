"""Bit sets of what a client may do (KIP-430). There are no ACLs: everything that Kafka knows for
the resource.
"""

from typing import Final

# By AclOperation code: READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9,
# DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11, IDEMPOTENT_WRITE 12.
TOPIC: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
GROUP: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
CLUSTER: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
NOT_ASKED: Final = -(2**31)
