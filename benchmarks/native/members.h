/* Groups of real members, one connection each, which join, sync, heartbeat and follow rebalances as clients do. */
#ifndef MEMBERS_H
#define MEMBERS_H

#include "requests.h"

enum phase { FINDING, JOINING, SYNCING, STABLE, LEAVING, GONE };

struct group {
    char name[NAME_SIZE];
    int expected;       /* members that it should have */
    int32_t generation; /* the latest that was synced by anyone */
    int synced;         /* members in it */
    int changes;        /* of the consumer protocol: joins and leaves so far */
};

struct member {
    struct connection connection;
    struct group *group;
    char id[NAME_SIZE];
    int32_t generation;
    bool is_leader;
    enum phase phase;
    uint64_t due; /* ns: when to heartbeat, or to try again; 0: an answer is awaited */
    struct bytes owned; /* of the consumer protocol: the assignment as it came, and the number of its partitions */
    int partitions;
    int port; /* of the coordinator, if it is asked for */
};

struct crowd {
    struct member *members;
    struct group *groups;
    int count, group_count;
    int heartbeat_version;
    uint64_t heartbeat_every; /* ns */
};

/* Connects `count` members in groups of `size`, named after `run`, each of which finds its coordinator (which has
 * Apache Kafka make its own topics), and connects to it if `moves`. Nobody joins yet. */
struct crowd connect_members(const char *host, int port, const char *run, int count, int size, bool moves);

/* Has everyone join, until each group is stable with all its members. */
void settle(struct crowd *crowd);

/* Lets heartbeats under way be answered and sends no more: every connection is free. */
void hush(struct crowd *crowd);

/* Has a member that does not lead leave, until the others are stable without it. Gives the nanoseconds
 * from its LeaveGroup on; everyone else learns of it from a heartbeat. */
uint64_t leave_and_settle(struct crowd *crowd);

/* Everyone who is a member leaves. */
void depart(struct crowd *crowd);

#endif
