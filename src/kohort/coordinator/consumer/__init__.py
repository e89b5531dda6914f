"""Consumer groups (KIP-848): members move one by one to a target that the server computes.

Rebalances are no barriers. Three epochs show the progress of a group:

| epoch | of | bumped, or set, when |
|---|---|---|
| group epoch | group | members, subscriptions or their topics change |
| assignment epoch | target assignment | the target is computed for the group epoch |
| member epoch | member | the member has revoked all partitions outside its target |

The heartbeat of a member decides its next assignment. A member owns the partitions that are
assigned to it, including those that it has yet to revoke; no other member gets them.

| module | content |
|---|---|
| `group` | logged and soft state of a group, and its fold |
| `subscriptions` | the names of subscribed topics |
| `heartbeat` | ConsumerGroupHeartbeat: checks and effect |
| `reconciliation` | the next assignment of one member |
| `target` | the target assignment of all members |
| `leaving` | leaving, expiry, returning static members |
| `classic_members` | JoinGroup, SyncGroup and Heartbeat of members of the classic protocol |
| `classic_assignments` | subscriptions and assignments of classic members |
| `upgrade` `downgrade` | online change of the group type |
| `regular_expressions` | subscriptions by regular expression |
| `describing` | ConsumerGroupDescribe |

Source: GroupMetadataManager, ConsumerGroup and CurrentAssignmentBuilder of Kafka 4.4.
"""
