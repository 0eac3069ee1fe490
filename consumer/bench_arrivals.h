/* Arrivals: when each job of a benchmark is due, and how long its prompt and answer are.
 *
 * Made beforehand, from a rate, an interval or a trace, so that a slow system cannot slow down
 * those who send to it: each job's latency counts from when it was due. Pure but for memory; the
 * caller frees. Any thread. Refuses to know how jobs are sent. */
#ifndef SOLFLEET_CONSUMER_BENCH_ARRIVALS_H
#define SOLFLEET_CONSUMER_BENCH_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_ARRIVALS_MAX 1000000u
#define BENCH_ARRIVALS_PROMPT_TOKENS_MAX 131072u
#define BENCH_ARRIVALS_OFFSET_MS_MAX 1e9

struct bench_arrival {
    int64_t offset_ns; /* from the start; never falls */
    uint32_t prompt_tokens;
    uint32_t max_tokens;
};

struct bench_arrivals_range {
    uint32_t min, max;
};

/* At most one of rate and interval; neither: all are due at once. */
struct bench_arrivals_options {
    double rate_per_s;  /* mean rate of a Poisson process: gaps are exponential */
    double interval_ms; /* equal gaps */
    struct bench_arrivals_range prompt_tokens; /* evenly over the logarithm of the length */
    uint32_t max_tokens;
    uint64_t seed;
};

/* Fills arrivals[0..count-1]. */
void bench_arrivals_make(const struct bench_arrivals_options *options,
                         struct bench_arrival *arrivals, size_t count);

/* Reads "128" or "32..2048". False when it is neither, zero, falling, or beyond `max`. */
bool bench_arrivals_parse_range(const char *text, uint32_t max, struct bench_arrivals_range *out);

/* Reads a trace: a line for each job, "offset_ms prompt_tokens max_tokens", separated by blanks or
 * commas; empty lines and what follows # are skipped; offsets may have fractions and never fall.
 * False with the line and the reason in err. `text` has a NUL after its end. */
bool bench_arrivals_parse_trace(const char *text, struct bench_arrival **out, size_t *count,
                                char *err, size_t err_bytes);

#endif
