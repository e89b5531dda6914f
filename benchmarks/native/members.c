#include "members.h"

#define RETRY_AFTER (20 * MS)
#define GIVE_UP_AFTER (120000 * MS)

static struct crowd *current; /* whose answers are being worked on */
static bool asks_for_port;

static bool is_passing(enum error error) {
    return error == COORDINATOR_LOAD_IN_PROGRESS || error == COORDINATOR_NOT_AVAILABLE || error == NOT_COORDINATOR;
}

static void act(struct member *m) {
    m->due = 0;
    if (m->phase == FINDING)
        send_find_coordinator(&m->connection, m->group->name);
    else if (m->phase == JOINING)
        send_join(&m->connection, m->group->name, m->id);
    else if (m->phase == STABLE)
        send_heartbeat(&m->connection, current->heartbeat_version, m->group->name, m->generation, m->id);
}

static void join_again(struct member *m) {
    m->phase = JOINING;
    act(m);
}

static void on_joined(struct member *m, struct reader answer) {
    struct joined joined = read_join(answer);
    if (joined.error == MEMBER_ID_REQUIRED || joined.error == NONE)
        snprintf(m->id, NAME_SIZE, "%s", joined.member_id);
    if (joined.error == UNKNOWN_MEMBER_ID)
        m->id[0] = 0;
    if (is_passing(joined.error)) {
        m->due = now_ns() + RETRY_AFTER;
    } else if (joined.error == NONE) {
        m->phase = SYNCING;
        m->generation = joined.generation;
        m->is_leader = joined.is_leader;
        send_sync(&m->connection, m->group->name, &joined);
    } else if (joined.error == MEMBER_ID_REQUIRED || joined.error == UNKNOWN_MEMBER_ID ||
               joined.error == REBALANCE_IN_PROGRESS) {
        join_again(m);
    } else {
        die("JoinGroup failed with error %d", joined.error);
    }
}

static bool must_rejoin(enum error error) {
    return error == REBALANCE_IN_PROGRESS || error == ILLEGAL_GENERATION || error == UNKNOWN_MEMBER_ID;
}

static void on_synced(struct member *m, struct reader answer) {
    struct group *group = m->group;
    enum error error = read_sync(answer);
    if (error != NONE) {
        if (!must_rejoin(error) && !is_passing(error))
            die("SyncGroup failed with error %d", error);
        join_again(m);
        return;
    }
    if (m->generation > group->generation) {
        group->generation = m->generation;
        group->synced = 0;
    }
    group->synced += m->generation == group->generation;
    m->phase = STABLE;
    m->due = now_ns() + current->heartbeat_every;
}

static void on_heartbeat(struct member *m, struct reader answer) {
    enum error error = read_heartbeat(answer, current->heartbeat_version);
    if (error == NONE)
        m->due = now_ns() + current->heartbeat_every;
    else if (must_rejoin(error))
        join_again(m);
    else
        die("Heartbeat failed with error %d", error);
}

static void on_coordinator(struct member *m, struct reader answer) {
    enum error error = read_find_coordinator(answer);
    if (error != NONE && !is_passing(error))
        die("FindCoordinator failed with error %d", error);
    m->due = error == NONE ? 0 : now_ns() + RETRY_AFTER;
    if (error != NONE)
        return;
    m->phase = JOINING;
    if (asks_for_port)
        m->port = read_port_of_coordinator(answer);
}

static void on_member_answer(struct connection *c, struct reader answer) {
    struct member *m = c->owner;
    if (m->phase == FINDING) {
        on_coordinator(m, answer);
    } else if (m->phase == JOINING) {
        on_joined(m, answer);
    } else if (m->phase == SYNCING) {
        on_synced(m, answer);
    } else if (m->phase == STABLE) {
        on_heartbeat(m, answer);
    } else if (m->phase == LEAVING) {
        read_leave(answer);
        m->phase = GONE;
    }
}

/* One connection after the other is found to be accepted: a peer has a backlog of five, and a SYN beyond it is lost. */
static void find_coordinator(struct member *m) {
    act(m);
    while (m->phase == FINDING) {
        poll_answers(10, on_member_answer);
        if (m->due && m->due <= now_ns())
            act(m);
    }
}

struct crowd connect_members(const char *host, int port, const char *run, int count, int size, bool moves) {
    asks_for_port = moves;
    struct crowd crowd = {.count = count, .group_count = (count + size - 1) / size, .heartbeat_version = 4};
    crowd.heartbeat_every = 300 * MS;
    crowd.members = calloc((size_t)count, sizeof *crowd.members);
    crowd.groups = calloc((size_t)crowd.group_count, sizeof *crowd.groups);
    for (int i = 0; i < crowd.group_count; i++)
        snprintf(crowd.groups[i].name, NAME_SIZE, "%s-%d", run, i);
    for (int i = 0; i < count; i++) {
        struct member *m = &crowd.members[i];
        m->group = &crowd.groups[i / size];
        m->group->expected++;
        connect_to(&m->connection, host, port, m);
        find_coordinator(m);
        if (moves && m->port != port) {
            disconnect(&m->connection);
            connect_to(&m->connection, host, m->port, m);
        }
    }
    return crowd;
}

static bool is_settled(const struct crowd *crowd) {
    for (int i = 0; i < crowd->group_count; i++)
        if (crowd->groups[i].synced != crowd->groups[i].expected)
            return false;
    return true;
}

static bool is_quiet(const struct crowd *crowd) {
    for (int i = 0; i < crowd->count; i++)
        if (crowd->members[i].connection.waiting)
            return false;
    return true;
}

static void act_if_due(struct crowd *crowd, uint64_t now) {
    for (int i = 0; i < crowd->count; i++) {
        struct member *m = &crowd->members[i];
        if (m->due && m->due <= now)
            act(m);
    }
}

/* Due times are kept to the millisecond, until `done`. */
static void run_until(struct crowd *crowd, bool (*done)(const struct crowd *), bool with_timers) {
    uint64_t started = now_ns(), next_look = 0;
    current = crowd;
    while (!done(crowd)) {
        uint64_t now = now_ns();
        if (with_timers && now >= next_look) {
            act_if_due(crowd, now);
            next_look = now + MS;
        }
        if (now - started > GIVE_UP_AFTER)
            die("the groups did not settle within two minutes");
        poll_answers(1, on_member_answer);
    }
}

void settle(struct crowd *crowd) {
    current = crowd;
    for (int i = 0; i < crowd->count; i++)
        join_again(&crowd->members[i]);
    run_until(crowd, is_settled, true);
}

void hush(struct crowd *crowd) {
    run_until(crowd, is_quiet, false);
}

/* As if the members had joined at any time: just after a sync all of them would heartbeat at once. */
static void spread_heartbeats(struct crowd *crowd) {
    uint64_t now = now_ns(), step = crowd->heartbeat_every / (uint64_t)crowd->count;
    for (int i = 0; i < crowd->count; i++)
        crowd->members[i].due = now + (uint64_t)i * step;
}

uint64_t leave_and_settle(struct crowd *crowd) {
    struct member *leaver = NULL;
    for (int i = 0; i < crowd->count; i++)
        if (!crowd->members[i].is_leader)
            leaver = &crowd->members[i];
    if (!leaver)
        die("everybody leads");
    hush(crowd);
    spread_heartbeats(crowd);
    leaver->group->expected--;
    leaver->group->synced = 0;
    leaver->group->generation++; /* what is synced from here on counts */
    leaver->phase = LEAVING;
    leaver->due = 0;
    uint64_t started = now_ns();
    send_leave(&leaver->connection, leaver->group->name, leaver->id);
    run_until(crowd, is_settled, true);
    return now_ns() - started;
}

static bool all_gone(const struct crowd *crowd) {
    for (int i = 0; i < crowd->count; i++)
        if (crowd->members[i].phase == LEAVING)
            return false;
    return true;
}

void depart(struct crowd *crowd) {
    hush(crowd);
    for (int i = 0; i < crowd->count; i++) {
        struct member *m = &crowd->members[i];
        if (m->phase == STABLE) {
            m->phase = LEAVING;
            send_leave(&m->connection, m->group->name, m->id);
        }
    }
    run_until(crowd, all_gone, false);
}
