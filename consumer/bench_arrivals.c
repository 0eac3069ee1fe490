#include "consumer/bench_arrivals.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/bench_random.h"
#include "engine/clock.h"
#include "schemas/job.h"

/* ---- schedules ------------------------------------------------------------------------------- */

static uint32_t bench_arrivals_draw_length(const struct bench_arrivals_range *range,
                                           uint64_t *random) {
    double share = bench_random_unit(random);
    double length = (double)range->min * pow((double)range->max / (double)range->min, share);
    uint32_t rounded = (uint32_t)lround(length);
    return rounded < range->min ? range->min : rounded > range->max ? range->max : rounded;
}

/* Gaps and lengths are drawn from streams of their own: another rate gives the same jobs. */
void bench_arrivals_make(const struct bench_arrivals_options *options,
                         struct bench_arrival *arrivals, size_t count) {
    assert(options->rate_per_s <= 0 || options->interval_ms <= 0);
    uint64_t gaps = options->seed, lengths = options->seed ^ 0x5851F42D4C957F2Du;
    double offset_ms = 0;
    for (size_t i = 0; i < count; i++) {
        if (options->rate_per_s > 0) {
            offset_ms += -log(bench_random_unit(&gaps)) * 1e3 / options->rate_per_s;
        } else {
            offset_ms = (double)i * options->interval_ms;
        }
        arrivals[i] = (struct bench_arrival){
            .offset_ns = (int64_t)(offset_ms * (double)CLOCK_NS_PER_MS),
            .prompt_tokens = bench_arrivals_draw_length(&options->prompt_tokens, &lengths),
            .max_tokens = options->max_tokens};
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Reads digits only; NULL when there are none or they say more than `max` or less than 1. */
static const char *bench_arrivals_read_count(const char *text, uint32_t max, uint32_t *out) {
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= max; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
    }
    *out = (uint32_t)value;
    return at > text && value >= 1 && value <= max ? at : NULL;
}

bool bench_arrivals_parse_range(const char *text, uint32_t max, struct bench_arrivals_range *out) {
    const char *at = bench_arrivals_read_count(text, max, &out->min);
    if (!at) {
        return false;
    }
    out->max = out->min;
    if (strncmp(at, "..", 2) == 0) {
        at = bench_arrivals_read_count(at + 2, max, &out->max);
    }
    return at && *at == '\0' && out->min <= out->max;
}

static const char *bench_arrivals_skip(const char *at) {
    return at + strspn(at, " \t\r,");
}

static bool bench_arrivals_is_line_end(const char *at) {
    return *at == '\0' || *at == '\n' || *at == '#';
}

/* Plain decimals only: strtod alone would take blanks, line ends, hex and nan as well. */
static const char *bench_arrivals_read_offset(const char *at, int64_t *offset_ns) {
    if (strspn(at, "0123456789.") == 0) {
        return NULL;
    }
    char *end = NULL;
    double ms = strtod(at, &end);
    *offset_ns = (int64_t)(ms * (double)CLOCK_NS_PER_MS);
    return end == at + strspn(at, "0123456789.") && ms <= BENCH_ARRIVALS_OFFSET_MS_MAX ? end : NULL;
}

/* Reads one line's job; says what is wrong, or NULL. */
static const char *bench_arrivals_read_line(const char *at, int64_t earliest_ns,
                                            struct bench_arrival *out) {
    at = bench_arrivals_read_offset(at, &out->offset_ns);
    if (!at) {
        return "the offset in milliseconds is no number, or beyond 1e9";
    }
    if (out->offset_ns < earliest_ns) {
        return "offsets may not fall: sort the trace by time";
    }
    at = bench_arrivals_read_count(bench_arrivals_skip(at), BENCH_ARRIVALS_PROMPT_TOKENS_MAX,
                                   &out->prompt_tokens);
    if (!at) {
        return "prompt tokens must be 1..131072";
    }
    at = bench_arrivals_read_count(bench_arrivals_skip(at), JOB_MAX_TOKENS_MAX, &out->max_tokens);
    if (!at) {
        return "max tokens must be 1..2048";
    }
    return bench_arrivals_is_line_end(bench_arrivals_skip(at)) ? NULL
                                                               : "there is more than three numbers";
}

static size_t bench_arrivals_count_lines(const char *text) {
    size_t count = 1;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        count++;
    }
    return count;
}

static const char *bench_arrivals_next_line(const char *at) {
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

bool bench_arrivals_parse_trace(const char *text, struct bench_arrival **out, size_t *count,
                                char *err, size_t err_bytes) {
    size_t line = 1, made = 0;
    int64_t earliest_ns = 0;
    *out = calloc(bench_arrivals_count_lines(text), sizeof **out);
    const char *wrong = *out ? NULL : "out of memory";
    for (const char *at = text; *at != '\0' && !wrong; at = bench_arrivals_next_line(at), line++) {
        const char *first = bench_arrivals_skip(at);
        if (bench_arrivals_is_line_end(first)) {
            continue;
        }
        wrong = made < BENCH_ARRIVALS_MAX
                    ? bench_arrivals_read_line(first, earliest_ns, &(*out)[made])
                    : "there are more than 1000000 jobs";
        if (wrong) {
            break;
        }
        earliest_ns = (*out)[made++].offset_ns;
    }
    if (!wrong && made == 0) {
        wrong = "there is no job in it";
    }
    if (wrong) {
        snprintf(err, err_bytes, "line %zu: %s", line, wrong);
        free(*out);
        *out = NULL;
    }
    *count = wrong ? 0 : made;
    return !wrong;
}
