/* Lines for the harness, and waiting for it. */
#ifndef REPORT_H
#define REPORT_H

#include "base.h"

static inline uint64_t cpu_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static inline void say(const char *line) {
    puts(line);
    fflush(stdout);
}

/* The harness looks at the server, and then sends a line or closes the pipe. */
static inline void wait_for_harness(void) {
    for (int byte = getchar(); byte != '\n' && byte != EOF;)
        byte = getchar();
}

#endif
