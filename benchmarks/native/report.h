/* Lines for the harness, and waiting for it. */
#ifndef REPORT_H
#define REPORT_H

#include "base.h"
#include "histogram.h"

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

/* What was measured since then, and what it took of this process. */
static inline void print_measured(const struct histogram *latencies, uint64_t started, uint64_t cpu) {
    printf("{\"count\": %llu, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, "
           "\"load_cpu_s\": %.3f}\n",
           (unsigned long long)latencies->total, (double)(now_ns() - started) / 1e9, quantile_us(latencies, 0.50),
           quantile_us(latencies, 0.99), quantile_us(latencies, 1), (double)(cpu_ns() - cpu) / 1e9);
    fflush(stdout);
}

#endif
