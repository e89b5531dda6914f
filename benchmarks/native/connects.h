/* New connections, one after the other in each of some threads. */
#ifndef CONNECTS_H
#define CONNECTS_H

struct connects {
    const char *host;
    int port, at_a_time;
    const char *user, *password; /* NULL: no login */
    double warmup_s, measured_s;
};

/* Prints "measuring" when the warm-up is over, and one JSON line with what was measured at the end. */
void run_connects(const struct connects *plan);

#endif
