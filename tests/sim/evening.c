#include "tests/sim/evening.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NS_PER_S 1000000000.0
#define EVENING_S (2 * 3600.0)
#define PROBLEMS_MAX 256
#define JOBS_MAX 100000
#define BUILTIN_TOKENS 190 /* of the prompt that a problem is put into */

struct evening_lengths {
    uint32_t count;
    uint32_t statement[PROBLEMS_MAX], solution[PROBLEMS_MAX];
};

static double evening_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static bool evening_read_lengths(struct evening_lengths *lengths, const char *path) {
    FILE *file = fopen(path, "r");
    lengths->count = 0;
    while (file != NULL && lengths->count < PROBLEMS_MAX &&
           fscanf(file, "%*s %u %u", &lengths->statement[lengths->count],
                  &lengths->solution[lengths->count]) == 2) {
        lengths->count++;
    }
    if (file != NULL) {
        fclose(file);
    }
    return lengths->count > 0;
}

static void evening_add(struct evening *evening, const struct evening_lengths *lengths,
                        enum evening_kind kind, double at_s, uint64_t *random) {
    static const uint32_t priorities[] = {1, 5, 9};
    static const double timeouts_s[] = {60, 300, 0};
    assert(evening->count < JOBS_MAX);
    uint32_t problem = (uint32_t)(evening_random(random) * lengths->count);
    struct evening_job *job = &evening->jobs[evening->count++];
    *job = (struct evening_job){.kind = kind,
                                .priority = priorities[kind],
                                .prompt_tokens = BUILTIN_TOKENS + lengths->statement[problem],
                                .answer_max = 512,
                                .arrival_ns = (int64_t)(at_s * NS_PER_S)};
    /* Prose of some length, then the code. */
    job->answer_tokens = 60 + lengths->solution[problem] + (uint32_t)(evening_random(random) * 140);
    job->answer_tokens = job->answer_tokens < 512 ? job->answer_tokens : 512;
    /* One judge asks for most of it; the archive is one tenant, too. */
    job->tenant = kind == EVENING_BULK           ? 100
                  : evening_random(random) < 0.6 ? 1
                                                 : 2 + (uint64_t)(evening_random(random) * 8);
    if (timeouts_s[kind] > 0) {
        job->deadline_ns = job->arrival_ns + (int64_t)(timeouts_s[kind] * NS_PER_S);
    }
}

/* Jobs a second at a moment: a calm before, a rush at the start of each of three contests. */
static double evening_rate(enum evening_kind kind, double at_s) {
    double rate = kind == EVENING_INTERACTIVE ? 0.10 : 0.08;
    for (int contest = 0; contest < 3 && kind != EVENING_BULK; contest++) {
        double since_s = at_s - (600 + contest * 2100);
        if (since_s >= 0 && since_s < 1200) {
            rate += (kind == EVENING_INTERACTIVE ? 0.35 : 1.6) * exp(-since_s / 300);
        }
    }
    return kind == EVENING_BULK ? 0 : rate;
}

static int evening_compare(const void *a, const void *b) {
    const struct evening_job *x = a, *y = b;
    return x->arrival_ns < y->arrival_ns ? -1 : x->arrival_ns > y->arrival_ns;
}

bool evening_make(struct evening *evening, const char *lengths_path, uint64_t seed, double load) {
    struct evening_lengths lengths;
    *evening = (struct evening){.jobs = calloc(JOBS_MAX, sizeof *evening->jobs)};
    if (evening->jobs == NULL || !evening_read_lengths(&lengths, lengths_path)) {
        evening_free(evening);
        return false;
    }
    const double tick_s = 0.1;
    for (double at_s = 0; at_s < EVENING_S; at_s += tick_s) {
        for (int kind = 0; kind < EVENING_BULK; kind++) {
            double chance = evening_rate((enum evening_kind)kind, at_s) * tick_s * load;
            if (evening_random(&seed) < chance) {
                evening_add(evening, &lengths, (enum evening_kind)kind, at_s, &seed);
            }
        }
    }
    for (uint32_t i = 0; i < (uint32_t)(600 * load); i++) { /* all of it at once */
        evening_add(evening, &lengths, EVENING_BULK, 300, &seed);
    }
    qsort(evening->jobs, evening->count, sizeof *evening->jobs, evening_compare);
    return true;
}

void evening_free(struct evening *evening) {
    free(evening->jobs);
    *evening = (struct evening){0};
}
