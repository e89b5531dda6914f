#include "steady.h"

#include "records.h"
#include "report.h"

static struct histogram latencies;
static const struct steady *plan;
static struct crowd *crowd_at_work;
static uint64_t begins, ends;
static int64_t busy;  /* connections with something left to do */
static int64_t *done; /* requests answered, by connection */

static bool is_over(int64_t answered) {
    return plan->requests ? answered >= plan->requests : now_ns() >= ends;
}

static void ask_for_records(struct connection *c, int32_t partition, int64_t number) {
    int64_t fetches = plan->batches / BATCHES_OF_FETCH;
    if (plan->records == FETCHED)
        send_fetch(c, plan->topic, partition, number % fetches * BATCHES_OF_FETCH * RECORDS_OF_BATCH);
    else if (number)
        send_again(c, 1);
    else
        send_produce(c, plan->topic, partition);
}

static void ask(struct member *m, int64_t number) {
    struct connection *c = &m->connection;
    if (plan->records) {
        ask_for_records(c, (int32_t)((m - crowd_at_work->members) % plan->partitions), number);
        return;
    }
    if (!plan->partitions) {
        if (number)
            send_again(c, plan->in_flight);
        else if (plan->is_consumer)
            send_consumer_heartbeat(c, m->group->name, NULL, m->id, m->generation, NULL);
        else
            send_heartbeat(c, crowd_at_work->heartbeat_version, m->group->name, m->generation, m->id);
        return;
    }
    char group[NAME_SIZE];
    long index = m - crowd_at_work->members;
    if (m->port) /* only the group's coordinator takes commits */
        snprintf(group, sizeof group, "%s", m->group->name);
    else
        snprintf(group, sizeof group, "%s-%ld-%ld", plan->run, index, (long)(number % plan->groups_each));
    send_commit(c, group, plan->partitions, number);
}

/* A first commit to a group whose shard is still being loaded, or to a topic just made, is tried again. */
static bool is_worth_a_retry(enum error error, int64_t answered) {
    return plan->partitions && (plan->records ? answered == 0 : answered < plan->groups_each) &&
           (error == COORDINATOR_LOAD_IN_PROGRESS || error == COORDINATOR_NOT_AVAILABLE ||
            error == NOT_COORDINATOR || error == UNKNOWN_TOPIC_OR_PARTITION);
}

static enum error read_answer(struct reader answer) {
    if (plan->records)
        return plan->records == FETCHED ? read_fetch(answer) : read_produce(answer);
    if (plan->partitions)
        return read_commit(answer, plan->partitions);
    if (plan->is_consumer)
        return read_consumer_heartbeat(answer).error;
    return read_heartbeat(answer, crowd_at_work->heartbeat_version);
}

static void on_steady_answer(struct connection *c, struct reader answer) {
    struct member *m = c->owner;
    uint64_t now = now_ns();
    int64_t *answered = &done[m - crowd_at_work->members];
    enum error error = read_answer(answer);
    if (error == NONE) {
        if (now >= begins)
            record(&latencies, now - c->sent_at);
        ++*answered;
    } else if (!is_worth_a_retry(error, *answered)) {
        die("a request failed with error %d", error);
    }
    if (c->waiting)
        return;
    if (is_over(*answered))
        busy--;
    else
        ask(m, *answered);
}

void run_steady(struct crowd *crowd, const struct steady *steady) {
    crowd_at_work = crowd;
    plan = steady;
    done = calloc((size_t)crowd->count, sizeof *done);
    busy = crowd->count;
    begins = now_ns() + (uint64_t)(steady->warmup_s * 1e9);
    ends = begins + (uint64_t)(steady->measured_s * 1e9);
    for (int i = 0; i < crowd->count; i++)
        ask(&crowd->members[i], 0);
    while (now_ns() < begins && busy)
        poll_answers(10, on_steady_answer);
    say("measuring");
    uint64_t started = now_ns(), cpu = cpu_ns();
    while (busy)
        poll_answers(10, on_steady_answer);
    print_measured(&latencies, started, cpu);
}
