/* The requests that the load is made of, and what is wanted of their answers.
 *
 * Versions are those of a current client whose other ends exist in every peer: librdkafka's for joining, which is
 * not flexible; OffsetCommit v9; Heartbeat v4, or v3 for a peer that knows no other; ConsumerGroupHeartbeat v1. */
#ifndef REQUESTS_H
#define REQUESTS_H

#include "connection.h"

enum error {
    NONE = 0,
    UNKNOWN_TOPIC_OR_PARTITION = 3,
    COORDINATOR_LOAD_IN_PROGRESS = 14,
    COORDINATOR_NOT_AVAILABLE = 15,
    NOT_COORDINATOR = 16,
    ILLEGAL_GENERATION = 22,
    UNKNOWN_MEMBER_ID = 25,
    REBALANCE_IN_PROGRESS = 27,
    TOPIC_ALREADY_EXISTS = 36,
    MEMBER_ID_REQUIRED = 79,
    FENCED_MEMBER_EPOCH = 110,
};

#define NAME_SIZE 128
#define TOPIC "bench"

/* What JoinGroup says; `members` stays in the answer, for send_sync of a leader. */
struct joined {
    enum error error;
    int32_t generation, count;
    bool is_leader;
    char member_id[NAME_SIZE];
    struct reader members;
};

void send_find_coordinator(struct connection *c, const char *group);
enum error read_find_coordinator(struct reader answer);
/* Of an answer without an error. */
int read_port_of_coordinator(struct reader answer);

void send_create_topic(struct connection *c, const char *name, int partitions);
enum error read_create_topic(struct reader answer);

void send_join(struct connection *c, const char *group, const char *member_id);
struct joined read_join(struct reader answer);

/* As a leader: member number i of `joined` gets partition i of TOPIC. */
void send_sync(struct connection *c, const char *group, const struct joined *joined);
enum error read_sync(struct reader answer);

void send_heartbeat(struct connection *c, int version, const char *group, int32_t generation, const char *member_id);
enum error read_heartbeat(struct reader answer, int version);

void send_leave(struct connection *c, const char *group, const char *member_id);
enum error read_leave(struct reader answer);

/* What ConsumerGroupHeartbeat says. */
struct consumer_state {
    enum error error;
    int32_t epoch;
    bool is_assigned;         /* the answer has an assignment, perhaps an empty one */
    int partitions;           /* of it */
    struct reader assignment; /* its TopicPartitions, as a member sends them back */
};

/* At epoch 0 the member joins, and subscribes to `topic`. `owned` is its TopicPartitions as they came, or NULL. */
void send_consumer_heartbeat(struct connection *c, const char *group, const char *topic, const char *member_id,
                             int32_t epoch, const struct bytes *owned);
struct consumer_state read_consumer_heartbeat(struct reader answer);

/* A simple commit (no member, generation -1) of the first `partitions` partitions of TOPIC. */
void send_commit(struct connection *c, const char *group, int partitions, int64_t offset);

/* The first error of a partition; ends the program if the answer does not name `partitions` of them. */
enum error read_commit(struct reader answer, int partitions);

#endif
