/* Members of the consumer protocol (KIP-848): they heartbeat, and acknowledge every assignment at once.
 *
 * A crowd's members are those of `connect_members`; `generation` is their member epoch. A group is stable when its
 * members have all partitions of the topic, and one epoch, that of a target with everyone who has joined: each join
 * and each leave adds one to the epoch of a group, which begins at 1. */
#ifndef CONSUMERS_H
#define CONSUMERS_H

#include "members.h"

struct consumers {
    struct crowd *crowd;
    const char *topic;
    int partitions; /* of the topic */
};

/* Has everyone join, until each group is stable. */
void join_all(const struct consumers *consumers);

/* Has one member leave, until the others are stable. */
void leave_one(const struct consumers *consumers);

/* Has one member after the other leave and join again as a new one, all within `over_ns`, until they are stable. */
void restart_all(const struct consumers *consumers, uint64_t over_ns);

/* Lets heartbeats under way be answered and sends no more: every connection is free. */
void hush_consumers(const struct consumers *consumers);

/* Everyone who is a member leaves. */
void depart_consumers(const struct consumers *consumers);

#endif
