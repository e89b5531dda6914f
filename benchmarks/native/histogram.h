/* Latencies in buckets of at most 1.6 % width, from 1 ns up. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define SUB_BITS 6 /* 64 buckets per power of two */
#define BUCKETS (64 << SUB_BITS)

struct histogram {
    uint64_t counts[BUCKETS];
    uint64_t total;
};

static inline unsigned bucket_of(uint64_t ns) {
    if (ns < (1u << SUB_BITS))
        return (unsigned)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - SUB_BITS;
    return ((shift + 1) << SUB_BITS) + (unsigned)((ns >> shift) - (1u << SUB_BITS));
}

static inline uint64_t upper_end(unsigned bucket) {
    if (bucket < (1u << SUB_BITS))
        return bucket;
    unsigned shift = (bucket >> SUB_BITS) - 1;
    return (((uint64_t)(bucket & ((1u << SUB_BITS) - 1)) + (1u << SUB_BITS) + 1) << shift) - 1;
}

static inline void record(struct histogram *h, uint64_t ns) {
    h->counts[bucket_of(ns)]++;
    h->total++;
}

/* The latency, in microseconds, that a fraction of all stays within. */
static inline double quantile_us(const struct histogram *h, double fraction) {
    uint64_t wanted = (uint64_t)(fraction * (double)h->total + 0.999999), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += h->counts[bucket];
        if (seen >= wanted && seen)
            return (double)upper_end(bucket) / 1000.0;
    }
    return 0;
}

#endif
