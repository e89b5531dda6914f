"""Consumer groups (KIP-848): members walk, one by one, to a target that the server computes.

No rebalance is a barrier here. Three epochs tell how far a group is:

| epoch | of | bumped, or set, when |
|---|---|---|
| group epoch | group | members, subscriptions or their topics change |
| assignment epoch | target assignment | the target is computed for the group epoch |
| member epoch | member | the member has revoked what the target takes from it |

A member's next assignment is decided in its own heartbeat. A partition that is assigned to a
member, or that it has yet to revoke, is owned: no other member gets it.

| module | content |
|---|---|
| `group` | logged and soft state of a group, and its fold |
| `subscriptions` | the names of topics that members subscribe to |
| `heartbeat` | ConsumerGroupHeartbeat: checks and effect |
| `reconciliation` | the next assignment of one member |
| `target` | the target assignment of all members |
| `leaving` | leaving, expiry, static members that return |
| `classic_members` | JoinGroup, SyncGroup and Heartbeat of members of the classic protocol |
| `classic_assignments` | their blobs |
| `upgrade` `downgrade` | groups that change their type while they have members |
| `regular_expressions` | subscriptions by regular expression |
| `describing` | ConsumerGroupDescribe |

Source: GroupMetadataManager, ConsumerGroup and CurrentAssignmentBuilder of Kafka 4.4.
"""
