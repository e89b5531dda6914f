#include "requests.h"

enum api {
    OFFSET_COMMIT = 8,
    FIND_COORDINATOR = 10,
    JOIN_GROUP = 11,
    HEARTBEAT = 12,
    LEAVE_GROUP = 13,
    SYNC_GROUP = 14,
    CREATE_TOPICS = 19,
    CONSUMER_GROUP_HEARTBEAT = 68,
};

#define SESSION_TIMEOUT_MS 45000
#define REBALANCE_TIMEOUT_MS 60000

static enum error checked(struct reader r, enum error error) {
    if (!r.ok)
        die("an answer is shorter than its schema");
    return error;
}

void send_find_coordinator(struct connection *c, const char *group) {
    begin_request(c, FIND_COORDINATOR, 2, false);
    put_string(&c->out, group);
    put_i8(&c->out, 0); /* a group */
    send_request(c);
}

enum error read_find_coordinator(struct reader r) {
    get_i32(&r); /* throttle time */
    enum error error = get_i16(&r);
    return checked(r, error);
}

static void skip_string(struct reader *r) {
    int16_t length = get_i16(r);
    if (length > 0)
        take(r, (size_t)length);
}

int read_port_of_coordinator(struct reader r) {
    get_i32(&r);     /* throttle time */
    get_i16(&r);     /* error */
    skip_string(&r); /* its text */
    get_i32(&r);     /* node */
    skip_string(&r); /* host */
    return get_i32(&r);
}

void send_create_topic(struct connection *c, const char *name, int partitions) {
    begin_request(c, CREATE_TOPICS, 4, false);
    put_i32(&c->out, 1);
    put_string(&c->out, name);
    put_i32(&c->out, partitions);
    put_i16(&c->out, 1);     /* replicas */
    put_i32(&c->out, 0);     /* assignments */
    put_i32(&c->out, 0);     /* configs */
    put_i32(&c->out, 30000); /* timeout */
    put_i8(&c->out, 0);      /* not only validated */
    send_request(c);
}

enum error read_create_topic(struct reader r) {
    get_i32(&r); /* throttle time */
    if (get_i32(&r) != 1)
        die("CreateTopics answered for another number of topics");
    skip(&r, get_i16(&r));
    enum error error = get_i16(&r);
    return checked(r, error);
}

/* ConsumerProtocolSubscription v0 */
static void put_subscription(struct bytes *out) {
    put_i32(out, 2 + 4 + 2 + (int32_t)strlen(TOPIC) + 4);
    put_i16(out, 0);
    put_i32(out, 1);
    put_string(out, TOPIC);
    put_i32(out, -1); /* no user data */
}

/* ConsumerProtocolAssignment v0 */
static void put_assignment(struct bytes *out, int32_t partition) {
    put_i32(out, 2 + 4 + 2 + (int32_t)strlen(TOPIC) + 4 + 4 + 4);
    put_i16(out, 0);
    put_i32(out, 1);
    put_string(out, TOPIC);
    put_i32(out, 1);
    put_i32(out, partition);
    put_i32(out, -1); /* no user data */
}

void send_join(struct connection *c, const char *group, const char *member_id) {
    begin_request(c, JOIN_GROUP, 5, false);
    put_string(&c->out, group);
    put_i32(&c->out, SESSION_TIMEOUT_MS);
    put_i32(&c->out, REBALANCE_TIMEOUT_MS);
    put_string(&c->out, member_id);
    put_i16(&c->out, -1); /* no instance id */
    put_string(&c->out, "consumer");
    put_i32(&c->out, 1);
    put_string(&c->out, "range");
    put_subscription(&c->out);
    send_request(c);
}

struct joined read_join(struct reader r) {
    struct joined joined = {0};
    char leader[NAME_SIZE];
    get_i32(&r); /* throttle time */
    joined.error = get_i16(&r);
    joined.generation = get_i32(&r);
    skip(&r, get_i16(&r)); /* protocol */
    get_text(&r, get_i16(&r), leader, sizeof leader);
    get_text(&r, get_i16(&r), joined.member_id, sizeof joined.member_id);
    joined.count = get_i32(&r);
    joined.is_leader = joined.error == NONE && strcmp(leader, joined.member_id) == 0;
    joined.members = r;
    checked(r, joined.error);
    return joined;
}

static void put_assignments(struct bytes *out, const struct joined *joined) {
    struct reader r = joined->members;
    for (int32_t i = 0; i < joined->count; i++) {
        int16_t length = get_i16(&r);
        const uint8_t *id = take(&r, (size_t)length);
        skip(&r, get_i16(&r)); /* instance id */
        skip(&r, get_i32(&r)); /* subscription */
        checked(r, NONE);
        put_i16(out, length);
        put(out, id, (size_t)length);
        put_assignment(out, i);
    }
}

void send_sync(struct connection *c, const char *group, const struct joined *joined) {
    begin_request(c, SYNC_GROUP, 3, false);
    put_string(&c->out, group);
    put_i32(&c->out, joined->generation);
    put_string(&c->out, joined->member_id);
    put_i16(&c->out, -1); /* no instance id */
    put_i32(&c->out, joined->is_leader ? joined->count : 0);
    if (joined->is_leader)
        put_assignments(&c->out, joined);
    send_request(c);
}

enum error read_sync(struct reader r) {
    get_i32(&r); /* throttle time */
    enum error error = get_i16(&r);
    int32_t length = get_i32(&r);
    if (error == NONE && length <= 0)
        die("SyncGroup gave no assignment");
    return checked(r, error);
}

void send_heartbeat(struct connection *c, int version, const char *group, int32_t generation, const char *member_id) {
    bool flexible = version >= 4;
    void (*put_text)(struct bytes *, const char *) = flexible ? put_compact_string : put_string;
    begin_request(c, HEARTBEAT, (int16_t)version, flexible);
    put_text(&c->out, group);
    put_i32(&c->out, generation);
    put_text(&c->out, member_id);
    if (flexible) {
        put_varint(&c->out, 0); /* no instance id */
        put_varint(&c->out, 0); /* tags */
    } else {
        put_i16(&c->out, -1);
    }
    send_request(c);
}

enum error read_heartbeat(struct reader r, int version) {
    if (version >= 4)
        get_varint(&r); /* tags of the header */
    get_i32(&r);        /* throttle time */
    enum error error = get_i16(&r);
    return checked(r, error);
}

void send_leave(struct connection *c, const char *group, const char *member_id) {
    begin_request(c, LEAVE_GROUP, 1, false);
    put_string(&c->out, group);
    put_string(&c->out, member_id);
    send_request(c);
}

enum error read_leave(struct reader r) {
    get_i32(&r); /* throttle time */
    enum error error = get_i16(&r);
    return checked(r, error);
}

void send_consumer_heartbeat(struct connection *c, const char *group, const char *topic, const char *member_id,
                             int32_t epoch, const struct bytes *owned) {
    struct bytes *out = &c->out;
    begin_request(c, CONSUMER_GROUP_HEARTBEAT, 1, true);
    put_compact_string(out, group);
    put_compact_string(out, member_id);
    put_i32(out, epoch);
    put_varint(out, 0); /* no instance id */
    put_varint(out, 0); /* no rack */
    put_i32(out, epoch == 0 ? REBALANCE_TIMEOUT_MS : -1);
    put_varint(out, epoch == 0 ? 2 : 0); /* topics, and what else is null if it is left out */
    if (epoch == 0)
        put_compact_string(out, topic);
    put_varint(out, 0); /* no regular expression */
    put_varint(out, 0); /* no assignor */
    if (epoch == 0)
        put_varint(out, 1); /* owns nothing */
    else if (owned)
        put(out, owned->data, owned->length);
    else
        put_varint(out, 0);
    put_varint(out, 0); /* tags */
    send_request(c);
}

static void skip_compact_string(struct reader *r) { skip(r, (int64_t)get_varint(r) - 1); }

static void read_assignment(struct reader *r, struct consumer_state *state) {
    state->assignment = *r;
    for (uint32_t topics = get_varint(r); topics > 1 && r->ok; topics--) {
        skip(r, 16); /* topic id */
        uint32_t count = get_varint(r) - 1;
        skip(r, 4 * (int64_t)count);
        get_varint(r); /* tags */
        state->partitions += (int)count;
    }
    state->assignment.end = r->at;
    get_varint(r); /* tags */
}

struct consumer_state read_consumer_heartbeat(struct reader r) {
    struct consumer_state state = {0};
    get_varint(&r); /* tags of the header */
    get_i32(&r);    /* throttle time */
    state.error = get_i16(&r);
    skip_compact_string(&r); /* error message */
    skip_compact_string(&r); /* member id */
    state.epoch = get_i32(&r);
    get_i32(&r); /* heartbeat interval */
    state.is_assigned = get_i8(&r) == 1;
    if (state.is_assigned)
        read_assignment(&r, &state);
    checked(r, state.error);
    return state;
}

void send_commit(struct connection *c, const char *group, int partitions, int64_t offset) {
    struct bytes *out = &c->out;
    begin_request(c, OFFSET_COMMIT, 9, true);
    put_compact_string(out, group);
    put_i32(out, -1);           /* generation */
    put_compact_string(out, ""); /* member id */
    put_varint(out, 0);         /* no instance id */
    put_varint(out, 2);         /* one topic */
    put_compact_string(out, TOPIC);
    put_varint(out, (uint32_t)partitions + 1);
    for (int32_t partition = 0; partition < partitions; partition++) {
        put_i32(out, partition);
        put_i64(out, offset);
        put_i32(out, -1);            /* leader epoch */
        put_compact_string(out, ""); /* metadata */
        put_varint(out, 0);          /* tags */
    }
    put_varint(out, 0);
    put_varint(out, 0);
    send_request(c);
}

enum error read_commit(struct reader r, int partitions) {
    enum error first = NONE;
    get_varint(&r); /* tags of the header */
    get_i32(&r);    /* throttle time */
    uint32_t topics = get_varint(&r);
    skip(&r, (int64_t)get_varint(&r) - 1);
    uint32_t count = get_varint(&r);
    if (topics != 2 || count != (uint32_t)partitions + 1)
        die("OffsetCommit answered for %u partitions of %u topics", count - 1, topics - 1);
    for (int partition = 0; partition < partitions; partition++) {
        get_i32(&r);
        enum error error = get_i16(&r);
        get_varint(&r); /* tags */
        first = first ? first : error;
    }
    return checked(r, first);
}
