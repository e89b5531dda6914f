/* Requests in flight on every connection, for as long as wanted: heartbeats, simple commits, Produce or Fetch. */
#ifndef STEADY_H
#define STEADY_H

#include "members.h"

enum records { NO_RECORDS, PRODUCED, FETCHED };

struct steady {
    double warmup_s, measured_s;
    int64_t requests;  /* of each connection, instead of a time; 0: as long as said */
    int partitions;    /* of a commit, or of the topic of records; 0: heartbeats */
    enum records records; /* instead of commits; a connection keeps to a partition of `topic` */
    int batches;       /* of each partition that is fetched */
    const char *topic;
    bool is_consumer;  /* heartbeats are those of the consumer protocol */
    int groups_each;   /* a connection commits to these many groups in turn */
    int in_flight;     /* heartbeats that a connection sends at once, and the next when all are answered */
    const char *run;
};

/* Prints "measuring" when the warm-up is over, and one JSON line with what was measured at the end. */
void run_steady(struct crowd *crowd, const struct steady *steady);

#endif
