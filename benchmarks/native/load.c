/* The load of the benchmarks: real members of real groups, over Kafka's protocol, in one thread and one epoll.
 *
 *     load MODE --port P [--host 127.0.0.1] [--run NAME] [--connections N] [--group-size 10] …
 *
 *     topic       make --topic ("bench") with --partitions
 *     heartbeats  members join and sync, then each has --in-flight Heartbeats (1), for --seconds after --warmup
 *     commits     simple commits of --partitions each, to --groups-each groups of each connection in turn; for
 *                 --seconds after --warmup, or --requests on each connection; with --moves, to the group of
 *                 --group-size connections
 *     produce     batches of records to --partitions of --topic; for --seconds after --warmup, or --requests each
 *     fetch       reads --batches of each of these partitions again and again, for --seconds after --warmup
 *     connects    new connections, --connections at a time, for --seconds after --warmup: with ApiVersions answered,
 *                 and before it a login by SCRAM-SHA-512 as --user
 *     rebalance   time to get all members of a group synced, then again when one left
 *     first-join  time until one new member's JoinGroup is answered
 *     consumer-heartbeats  as `heartbeats`, of members of the consumer protocol that share --partitions of --topic
 *     consumer-group       time until a group of the consumer protocol is stable when all members join, when one
 *                 leaves, and when all restart within --over seconds; waits for a line after each
 *     hold        connect, say so, wait for a line; join, say so, wait for a line
 *
 * With --moves every connection goes to the coordinator of its group, which may be another node than that of --port.
 *
 * With --tls CERTIFICATES connections are encrypted, to a server that the authorities in this PEM file vouch for.
 *
 * Every answer is checked; an error, or one too few, ends the program with a reason on standard error and code 1.
 * Answers are JSON lines on standard output. Before it ends, the program waits until its standard input has a line
 * or is closed, so that its connections are there while the server is looked at; then its members leave their groups, so
 * that nobody's session ends in the middle of the next measurement.
 */
#define _GNU_SOURCE /* SCHED_BATCH */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>

#include "connects.h"
#include "consumers.h"
#include "report.h"
#include "steady.h"

struct options {
    const char *mode, *host, *topic, *user, *password;
    int port, connections, group_size, heartbeat_version;
    double over_s;
    bool moves;    /* every member connects to its coordinator */
    bool unjoined; /* for a server that only echoes: invent generation and member id */
    struct steady steady;
};

static struct crowd crowd;

static void connect_all(const struct options *o) {
    crowd = connect_members(o->host, o->port, o->steady.run, o->connections, o->group_size, o->moves);
    crowd.heartbeat_version = o->heartbeat_version;
}

static void make_members_up(void) {
    for (int i = 0; i < crowd.count; i++) {
        snprintf(crowd.members[i].id, NAME_SIZE, "bench-00000000-0000-0000-0000-%012d", i);
        crowd.members[i].generation = 1;
    }
}

static void heartbeats(const struct options *o) {
    connect_all(o);
    if (o->unjoined) {
        make_members_up();
    } else {
            settle(&crowd);
        hush(&crowd);
    }
    run_steady(&crowd, &o->steady);
}

static void commits(const struct options *o) {
    connect_all(o);
    run_steady(&crowd, &o->steady);
}

static void records(const struct options *o, enum records records) {
    struct steady steady = o->steady;
    steady.records = records;
    steady.topic = o->topic;
    connect_all(o);
    run_steady(&crowd, &steady);
}

static void produce(const struct options *o) { records(o, PRODUCED); }

static void fetch(const struct options *o) { records(o, FETCHED); }

static void connects(const struct options *o) {
    run_connects(&(struct connects){o->host, o->port, o->connections, o->user, o->password, o->steady.warmup_s,
                                    o->steady.measured_s});
}

static void rebalance(const struct options *o) {
    connect_all(o);
    uint64_t started = now_ns();
    settle(&crowd);
    uint64_t joined = now_ns() - started;
    int generation = crowd.groups[0].generation;
    uint64_t left = leave_and_settle(&crowd);
    printf("{\"join_ms\": %.3f, \"leave_ms\": %.3f, \"generations\": %d}\n", (double)joined / 1e6, (double)left / 1e6,
           generation);
    fflush(stdout);
}

static struct consumers consumers;

static void connect_consumers(const struct options *o) {
    connect_all(o);
    crowd.heartbeat_every = 1000 * MS;
    consumers = (struct consumers){&crowd, o->topic, o->steady.partitions};
}

static void consumer_heartbeats(const struct options *o) {
    struct steady steady = o->steady;
    steady.is_consumer = true;
    steady.partitions = 0;
    connect_consumers(o);
    join_all(&consumers);
    hush_consumers(&consumers);
    run_steady(&crowd, &steady);
}

static void tell_phase(uint64_t started, uint64_t cpu) {
    printf("{\"seconds\": %.6f, \"load_cpu_s\": %.3f}\n", (double)(now_ns() - started) / 1e9,
           (double)(cpu_ns() - cpu) / 1e9);
    fflush(stdout);
    wait_for_harness();
}

static void consumer_group(const struct options *o) {
    connect_consumers(o);
    say("connected");
    wait_for_harness();
    uint64_t started = now_ns(), cpu = cpu_ns();
    join_all(&consumers);
    tell_phase(started, cpu);
    started = now_ns(), cpu = cpu_ns();
    leave_one(&consumers);
    tell_phase(started, cpu);
    started = now_ns(), cpu = cpu_ns();
    restart_all(&consumers, (uint64_t)(o->over_s * 1e9));
    tell_phase(started, cpu);
}

static void first_join(const struct options *o) {
    uint64_t started = now_ns();
    connect_all(o);
    settle(&crowd);
    printf("{\"ms\": %.3f}\n", (double)(now_ns() - started) / 1e6);
    fflush(stdout);
}

static void hold(const struct options *o) {
    connect_all(o);
    say("{\"stage\": \"connected\"}");
    wait_for_harness();
    settle(&crowd);
    hush(&crowd);
    say("{\"stage\": \"joined\"}");
}

static enum error topic_error = NONE;
static bool topic_answered;

static void on_topic(struct connection *c, struct reader answer) {
    (void)c;
    topic_error = read_create_topic(answer);
    topic_answered = true;
}

static void topic(const struct options *o) {
    struct connection c;
    connect_to(&c, o->host, o->port, NULL);
    send_create_topic(&c, o->topic, o->steady.partitions);
    while (!topic_answered)
        poll_answers(1000, on_topic);
    if (topic_error != NONE && topic_error != TOPIC_ALREADY_EXISTS)
        die("CreateTopics failed with error %d", topic_error);
}

static const struct {
    const char *name;
    void (*run)(const struct options *);
} modes[] = {{"heartbeats", heartbeats}, {"commits", commits}, {"rebalance", rebalance},
             {"first-join", first_join}, {"hold", hold},       {"topic", topic},
             {"consumer-heartbeats", consumer_heartbeats}, {"consumer-group", consumer_group},
             {"produce", produce},       {"fetch", fetch},         {"connects", connects}};

static const struct option names[] = {
    {"host", required_argument, 0, 'h'},       {"port", required_argument, 0, 'p'},
    {"run", required_argument, 0, 'r'},        {"connections", required_argument, 0, 'c'},
    {"group-size", required_argument, 0, 'g'}, {"heartbeat-version", required_argument, 0, 'v'},
    {"moves", no_argument, 0, 'm'},
    {"unjoined", no_argument, 0, 'u'},         {"warmup", required_argument, 0, 'w'},
    {"seconds", required_argument, 0, 's'},    {"partitions", required_argument, 0, 'n'},
    {"requests", required_argument, 0, 'q'},   {"groups-each", required_argument, 0, 'e'},
    {"topic", required_argument, 0, 't'},      {"over", required_argument, 0, 'o'},
    {"tls", required_argument, 0, 'l'},        {"batches", required_argument, 0, 'b'},
    {"user", required_argument, 0, 'U'},       {"password", required_argument, 0, 'P'},
    {"in-flight", required_argument, 0, 'i'},
    {0},
};

static void set(struct options *o, int option) {
    switch (option) {
    case 'h': o->host = optarg; break;
    case 'p': o->port = atoi(optarg); break;
    case 'r': o->steady.run = optarg; break;
    case 'c': o->connections = atoi(optarg); break;
    case 'g': o->group_size = atoi(optarg); break;
    case 'v': o->heartbeat_version = atoi(optarg); break;
    case 'u': o->unjoined = true; break;
    case 'm': o->moves = true; break;
    case 'w': o->steady.warmup_s = atof(optarg); break;
    case 's': o->steady.measured_s = atof(optarg); break;
    case 'n': o->steady.partitions = atoi(optarg); break;
    case 'q': o->steady.requests = atol(optarg); break;
    case 'e': o->steady.groups_each = atoi(optarg); break;
    case 't': o->topic = optarg; break;
    case 'o': o->over_s = atof(optarg); break;
    case 'l': trust(optarg); break;
    case 'b': o->steady.batches = atoi(optarg); break;
    case 'U': o->user = optarg; break;
    case 'P': o->password = optarg; break;
    case 'i': o->steady.in_flight = atoi(optarg); break;
    default: die("see the head of load.c");
    }
}

/* Clients elsewhere do not take the processor from the server with each answer. */
static void yield_to_the_server(void) {
    struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_BATCH, &none))
        die("sched_setscheduler: %s", strerror(errno));
}

int main(int argc, char **argv) {
    struct options o = {.host = "127.0.0.1", .connections = 1, .group_size = 10, .heartbeat_version = 4};
    o.topic = TOPIC;
    o.over_s = 5;
    o.steady = (struct steady){.warmup_s = 1, .measured_s = 4, .groups_each = 1, .in_flight = 1, .run = "bench"};
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;)
        set(&o, option);
    signal(SIGPIPE, SIG_IGN);
    yield_to_the_server();
    o.mode = optind < argc ? argv[optind] : "";
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, o.mode) == 0) {
            modes[i].run(&o);
            wait_for_harness();
            if (consumers.crowd)
                depart_consumers(&consumers);
            else
                depart(&crowd);
            return 0;
        }
    die("no such mode: '%s'", o.mode);
}
