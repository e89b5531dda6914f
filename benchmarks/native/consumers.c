#include "consumers.h"

#define GIVE_UP_AFTER (120000 * MS)
#define RETRY_AFTER (20 * MS)
#define LEFT (-1)

static const struct consumers *current; /* whose answers are being worked on */
static bool silent;                     /* nothing is sent */
static bool restarts;                   /* who has left joins again */

static void heartbeat(struct member *m, const struct bytes *owned) {
    m->due = 0;
    send_consumer_heartbeat(&m->connection, m->group->name, current->topic, m->id, m->generation, owned);
}

/* As a member that was never there before. */
static void join_as_new(struct member *m) {
    static unsigned number;
    snprintf(m->id, NAME_SIZE, "consumer-%022u", ++number);
    m->phase = JOINING;
    m->generation = 0;
    m->partitions = 0;
    m->owned.length = 0;
    m->group->changes++;
    heartbeat(m, NULL);
}

static void leave_group(struct member *m) {
    m->phase = LEAVING;
    m->generation = LEFT;
    m->group->changes++;
    heartbeat(m, NULL);
}

static void take_over(struct member *m, const struct consumer_state *state) {
    m->phase = STABLE;
    m->generation = state->epoch;
    m->due = now_ns() + current->crowd->heartbeat_every;
    if (!state->is_assigned)
        return;
    m->partitions = state->partitions;
    m->owned.length = 0;
    put(&m->owned, state->assignment.at, (size_t)(state->assignment.end - state->assignment.at));
    if (!silent)
        heartbeat(m, &m->owned);
}

static void on_consumer_answer(struct connection *c, struct reader answer) {
    struct member *m = c->owner;
    struct consumer_state state = read_consumer_heartbeat(answer);
    bool is_passing = state.error == COORDINATOR_LOAD_IN_PROGRESS || state.error == COORDINATOR_NOT_AVAILABLE ||
                      state.error == NOT_COORDINATOR;
    if (is_passing)
        m->due = now_ns() + RETRY_AFTER;
    else if (state.error == UNKNOWN_MEMBER_ID || state.error == FENCED_MEMBER_EPOCH)
        die("a member was fenced with error %d at epoch %d", state.error, m->generation);
    else if (state.error != NONE)
        die("ConsumerGroupHeartbeat failed with error %d", state.error);
    else if (m->phase == LEAVING && restarts)
        join_as_new(m);
    else if (m->phase == LEAVING)
        m->phase = GONE;
    else
        take_over(m, &state);
}

/* Of a group there are only members that have joined or left: those that are on their way make it unstable. */
static bool is_stable(const struct member *members, int count, int partitions) {
    int32_t epoch = 0;
    int owned = 0;
    for (int i = 0; i < count; i++) {
        const struct member *m = &members[i];
        if (m->phase == GONE)
            continue;
        if (m->phase != STABLE || (epoch && m->generation != epoch))
            return false;
        epoch = m->generation;
        owned += m->partitions;
    }
    return owned == partitions && epoch > members[0].group->changes;
}

static bool are_stable(void) {
    const struct crowd *crowd = current->crowd;
    for (int i = 0; i < crowd->count;) {
        int size = crowd->members[i].group->expected;
        if (!is_stable(&crowd->members[i], size, current->partitions))
            return false;
        i += size;
    }
    return true;
}

static bool are_quiet(void) {
    for (int i = 0; i < current->crowd->count; i++)
        if (current->crowd->members[i].connection.waiting)
            return false;
    return true;
}

static void act_if_due(uint64_t now) {
    for (int i = 0; i < current->crowd->count; i++) {
        struct member *m = &current->crowd->members[i];
        if (m->due && m->due <= now)
            heartbeat(m, NULL);
    }
}

/* Due times, and what is awaited, are looked at once in a millisecond. */
static void run_until(bool (*done)(void)) {
    uint64_t started = now_ns(), next_look = 0;
    for (;;) {
        uint64_t now = now_ns();
        if (now >= next_look) {
            if (done())
                return;
            if (!silent)
                act_if_due(now);
            next_look = now + MS;
        }
        if (now - started > GIVE_UP_AFTER)
            die("the groups were not stable within two minutes");
        poll_answers(1, on_consumer_answer);
    }
}

void join_all(const struct consumers *consumers) {
    current = consumers;
    for (int i = 0; i < consumers->crowd->count; i++)
        join_as_new(&consumers->crowd->members[i]);
    run_until(are_stable);
}

void hush_consumers(const struct consumers *consumers) {
    current = consumers;
    silent = true;
    run_until(are_quiet);
    silent = false;
}

/* As if the members had joined at any time: after a common start all of them would heartbeat at once. */
static void spread_heartbeats(void) {
    struct crowd *crowd = current->crowd;
    uint64_t now = now_ns(), step = crowd->heartbeat_every / (uint64_t)crowd->count;
    for (int i = 0; i < crowd->count; i++)
        if (crowd->members[i].phase == STABLE)
            crowd->members[i].due = now + (uint64_t)i * step;
}

void leave_one(const struct consumers *consumers) {
    hush_consumers(consumers);
    spread_heartbeats();
    leave_group(&consumers->crowd->members[0]);
    run_until(are_stable);
}

static struct member *restarting;
static uint64_t next_restart, restart_every;

/* Whether all have restarted whose turn has come; one that waits for an answer holds up those behind it. */
static bool all_restarted(void) {
    struct member *end = current->crowd->members + current->crowd->count;
    for (uint64_t now = now_ns(); restarting < end && now >= next_restart; next_restart += restart_every) {
        if (restarting->connection.waiting)
            return false;
        if (restarting->phase == GONE)
            join_as_new(restarting++);
        else
            leave_group(restarting++);
    }
    return restarting == end;
}

void restart_all(const struct consumers *consumers, uint64_t over_ns) {
    hush_consumers(consumers);
    spread_heartbeats();
    restarts = true;
    restarting = consumers->crowd->members;
    next_restart = now_ns();
    restart_every = over_ns / (uint64_t)consumers->crowd->count;
    run_until(all_restarted);
    run_until(are_stable);
    restarts = false;
}

static bool all_gone(void) {
    for (int i = 0; i < current->crowd->count; i++)
        if (current->crowd->members[i].phase == LEAVING)
            return false;
    return true;
}

void depart_consumers(const struct consumers *consumers) {
    hush_consumers(consumers);
    for (int i = 0; i < consumers->crowd->count; i++)
        if (consumers->crowd->members[i].phase == STABLE)
            leave_group(&consumers->crowd->members[i]);
    run_until(all_gone);
}
