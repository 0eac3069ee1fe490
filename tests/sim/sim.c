/* make sim: a contest's evening in virtual time through the real scheduler, deadline heap and cost
 * model, beside first come, first served.
 *
 *     sim LENGTHS.tsv [--seed N] [--load X] [--csv FILE]
 *
 * The device is a line through measured steps of a small CPU. Jobs beyond the engine's queue wait
 * before it in the order of arrival, as in a topic. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cost_model.h"
#include "engine/deadline_heap.h"
#include "engine/scheduler.h"
#include "tests/sim/evening.h"

#define NS_PER_MS 1000000LL
#define NS_PER_S 1000000000LL
/* Two cores: 7 ms a step, 3.3 ms a row of an answer, 1.8 ms a row of a prompt. */
#define STEP_NS (7 * NS_PER_MS)
#define DECODE_ROW_NS (3300 * 1000LL)
#define PREFILL_ROW_NS (1800 * 1000LL)

enum { HANDLES = 1056, RUNNING = 32, PAGES = 32 * 64 };

enum outcome { OUTCOME_OPEN, IN_TIME, LATE, EXPIRED_WAITING, EXPIRED_RUNNING, REFUSED, OUTCOMES };
static const char *const outcome_names[] = {"open",    "in time",     "late",
                                            "expired", "cut running", "refused"};

struct policy {
    const char *name;
    bool priorities; /* and tenants */
    bool deadlines;  /* expired jobs end, infeasible ones are refused */
};

struct job_state {
    enum outcome outcome;
    int64_t start_ns, first_token_ns, end_ns;
};

struct sim {
    const struct policy *policy;
    const struct evening *evening;
    struct job_state *states; /* [evening->count] */
    struct scheduler scheduler;
    struct deadline_heap deadlines;
    struct cost_model costs;
    uint32_t jobs[HANDLES]; /* of each handle */
    uint32_t free_handles[HANDLES], free_count;
    uint32_t pages_held[HANDLES], pages_total;
    uint32_t next; /* job that comes next */
    int64_t now_ns, busy_ns;
    uint64_t preemptions, rows, rows_in_vain;
};

/* ---------------------------------------------------------------- pages by count */

static bool sim_begin(void *context, uint32_t handle, uint32_t page_count,
                      uint32_t *computed_tokens) {
    struct sim *sim = context;
    if (sim->pages_total + page_count > PAGES) {
        return false;
    }
    sim->pages_held[handle] = page_count;
    sim->pages_total += page_count;
    *computed_tokens = 0;
    return true;
}

static bool sim_grow(void *context, uint32_t handle) {
    struct sim *sim = context;
    if (sim->pages_total == PAGES) {
        return false;
    }
    sim->pages_held[handle]++;
    sim->pages_total++;
    return true;
}

static void sim_release(void *context, uint32_t handle) {
    struct sim *sim = context;
    sim->pages_total -= sim->pages_held[handle];
    sim->pages_held[handle] = 0;
}

/* ---------------------------------------------------------------- jobs in and out */

static void sim_end(struct sim *sim, uint32_t handle, enum outcome outcome) {
    uint32_t job = sim->jobs[handle];
    const struct evening_job *asked = &sim->evening->jobs[job];
    uint32_t rows = sim->scheduler.entries[handle].computed_tokens;
    sim->states[job].outcome = outcome;
    sim->states[job].end_ns = sim->now_ns;
    if (outcome == IN_TIME && asked->deadline_ns != 0 && sim->now_ns > asked->deadline_ns) {
        sim->states[job].outcome = LATE;
    }
    sim->rows += rows;
    sim->rows_in_vain += sim->states[job].outcome != IN_TIME ? rows : 0;
    scheduler_remove(&sim->scheduler, handle);
    deadline_heap_remove(&sim->deadlines, handle);
    sim->free_handles[sim->free_count++] = handle;
}

/* What the engine does with a job that comes: see engine_step.c. */
static void sim_submit(struct sim *sim, uint32_t job) {
    const struct evening_job *asked = &sim->evening->jobs[job];
    const struct policy *policy = sim->policy;
    uint32_t handle = sim->free_handles[--sim->free_count];
    uint32_t tokens = asked->prompt_tokens + asked->answer_max - 1;
    const struct scheduler_item item = {.prompt_tokens = asked->prompt_tokens,
                                        .pages_max = (tokens + 15) / 16,
                                        .priority = policy->priorities ? asked->priority : 5,
                                        .tenant = policy->priorities ? asked->tenant : 0,
                                        .arrival_ns = asked->arrival_ns};
    const struct wait_queue_before before =
        wait_queue_before(&sim->scheduler.waiting, item.priority, item.tenant);
    const struct cost_model_arrival arrival = {.prompt_tokens = asked->prompt_tokens,
                                               .prompt_tokens_before = before.prompt_tokens,
                                               .sequences_before =
                                                   before.count + sim->scheduler.preempted.count,
                                               .running = scheduler_running_count(&sim->scheduler),
                                               .places_count = RUNNING};
    sim->jobs[handle] = job;
    scheduler_add(&sim->scheduler, handle, &item);
    if (!policy->deadlines || asked->deadline_ns == 0) {
        return;
    }
    deadline_heap_set(&sim->deadlines, handle, asked->deadline_ns);
    if (cost_model_least_ns(&sim->costs, &arrival) > asked->deadline_ns - sim->now_ns &&
        asked->deadline_ns > sim->now_ns) {
        sim_end(sim, handle, REFUSED);
    }
}

static void sim_intake(struct sim *sim) {
    const struct evening *evening = sim->evening;
    uint32_t handle;
    while (sim->next < evening->count && sim->free_count > 0 &&
           evening->jobs[sim->next].arrival_ns <= sim->now_ns) {
        sim_submit(sim, sim->next++);
    }
    while (deadline_heap_take(&sim->deadlines, sim->now_ns, &handle)) {
        bool runs = sim->scheduler.entries[handle].computed_tokens > 0;
        sim_end(sim, handle, runs ? EXPIRED_RUNNING : EXPIRED_WAITING);
    }
}

static void sim_retire(struct sim *sim, const struct schedule *schedule) {
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        const struct evening_job *asked = &sim->evening->jobs[sim->jobs[pick->handle]];
        struct job_state *state = &sim->states[sim->jobs[pick->handle]];
        if (pick->is_sampled && state->first_token_ns == 0) {
            state->first_token_ns = sim->now_ns;
        }
        if (pick->first_position + pick->row_count >=
            asked->prompt_tokens + asked->answer_tokens - 1) {
            cost_model_note_answer(&sim->costs, asked->answer_tokens);
            sim_end(sim, pick->handle, IN_TIME);
        }
    }
}

static void sim_step(struct sim *sim) {
    struct schedule schedule;
    sim_intake(sim);
    scheduler_next(&sim->scheduler, sim->now_ns, &schedule);
    if (schedule.pick_count == 0) {
        int64_t wake_ns = schedule.wake_ns;
        int64_t deadline_ns = deadline_heap_first_ns(&sim->deadlines);
        wake_ns = deadline_ns < wake_ns ? deadline_ns : wake_ns;
        if (sim->next < sim->evening->count) {
            int64_t arrival_ns = sim->evening->jobs[sim->next].arrival_ns;
            wake_ns = arrival_ns < wake_ns ? arrival_ns : wake_ns;
        }
        sim->now_ns = wake_ns;
        return;
    }
    for (uint32_t i = 0; i < schedule.admitted_count; i++) {
        sim->states[sim->jobs[schedule.admitted[i]]].start_ns = sim->now_ns;
    }
    uint32_t rows = 0;
    for (uint32_t i = 0; i < schedule.pick_count; i++) {
        rows += schedule.picks[i].row_count;
    }
    struct cost_model_step cost = {.prefill_rows = schedule.prefill_rows,
                                   .decode_rows = rows - schedule.prefill_rows};
    cost.ns = STEP_NS + cost.prefill_rows * PREFILL_ROW_NS + cost.decode_rows * DECODE_ROW_NS;
    sim->now_ns += cost.ns;
    sim->busy_ns += cost.ns;
    sim->preemptions += schedule.preempted_count;
    cost_model_note_step(&sim->costs, &cost);
    sim_retire(sim, &schedule);
}

static void sim_run(struct sim *sim, const struct policy *policy, const struct evening *evening) {
    const struct scheduler_limits limits = {.handles_max = HANDLES,
                                            .max_batch_size = RUNNING,
                                            .max_running = RUNNING,
                                            .max_batch_tokens = 4096,
                                            .prefill_chunk_tokens = 256,
                                            .pages_total = PAGES,
                                            .max_queue_delay_ns = 50 * NS_PER_MS,
                                            .priority_ageing_ns = 2000 * NS_PER_MS};
    struct scheduler_pages pages = {sim, sim_begin, sim_grow, sim_release};
    memset(sim, 0, sizeof *sim);
    sim->policy = policy;
    sim->evening = evening;
    sim->states = calloc(evening->count, sizeof *sim->states);
    bool made = scheduler_init(&sim->scheduler, &limits, &pages) &&
                deadline_heap_init(&sim->deadlines, HANDLES) && sim->states != NULL;
    assert(made);
    while (sim->free_count < HANDLES) {
        sim->free_handles[sim->free_count] = HANDLES - 1 - sim->free_count;
        sim->free_count++;
    }
    while (sim->next < evening->count || sim->free_count < HANDLES) {
        sim_step(sim);
    }
}

static void sim_free(struct sim *sim) {
    scheduler_deinit(&sim->scheduler);
    deadline_heap_deinit(&sim->deadlines);
    free(sim->states);
}

/* ---------------------------------------------------------------- what it says */

static int compare_ns(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double seconds_at(const int64_t *sorted, uint32_t count, double share) {
    return count == 0 ? NAN : (double)sorted[(uint32_t)(share * (count - 1))] / NS_PER_S;
}

static void print_kind(const struct sim *sim, enum evening_kind kind, int64_t *waits_ns) {
    static const char *const names[] = {"interactive  p1  60 s", "contest      p5 300 s",
                                        "bulk         p9    -"};
    uint32_t outcomes[OUTCOMES] = {0}, jobs = 0, waits = 0;
    for (uint32_t i = 0; i < sim->evening->count; i++) {
        const struct evening_job *asked = &sim->evening->jobs[i];
        if (asked->kind != kind) {
            continue;
        }
        jobs++;
        outcomes[sim->states[i].outcome]++;
        if (sim->states[i].first_token_ns != 0) {
            waits_ns[waits++] = sim->states[i].first_token_ns - asked->arrival_ns;
        }
    }
    qsort(waits_ns, waits, sizeof *waits_ns, compare_ns);
    printf("  %-22s %5u %8u %6.1f %6u %8u %8u %8u %9.1f %8.1f %8.1f\n", names[kind], jobs,
           outcomes[IN_TIME], 100.0 * outcomes[IN_TIME] / jobs, outcomes[LATE], outcomes[REFUSED],
           outcomes[EXPIRED_WAITING], outcomes[EXPIRED_RUNNING], seconds_at(waits_ns, waits, 0.5),
           seconds_at(waits_ns, waits, 0.95), seconds_at(waits_ns, waits, 1));
}

static void print_run(const struct sim *sim) {
    int64_t *waits_ns = calloc(sim->evening->count, sizeof *waits_ns);
    uint32_t in_time = 0;
    assert(waits_ns != NULL);
    for (uint32_t i = 0; i < sim->evening->count; i++) {
        in_time += sim->states[i].outcome == IN_TIME;
    }
    printf("\n%s: %u of %u jobs in time; device busy %.0f of %.0f s, %.1f %% of its rows for "
           "answers that were not in time; %llu preemptions\n",
           sim->policy->name, in_time, sim->evening->count, (double)sim->busy_ns / NS_PER_S,
           (double)sim->now_ns / NS_PER_S, 100.0 * (double)sim->rows_in_vain / (double)sim->rows,
           (unsigned long long)sim->preemptions);
    printf("  %-22s %5s %8s %6s %6s %8s %8s %8s %9s %8s %8s\n", "", "jobs", "in time", "%", "late",
           "refused", "expired", "cut", "wait p50", "p95", "most, s");
    for (int kind = 0; kind < EVENING_KINDS; kind++) {
        print_kind(sim, (enum evening_kind)kind, waits_ns);
    }
    free(waits_ns);
}

static void write_csv(FILE *csv, const struct sim *sim) {
    for (uint32_t i = 0; i < sim->evening->count; i++) {
        const struct evening_job *asked = &sim->evening->jobs[i];
        const struct job_state *state = &sim->states[i];
        fprintf(csv, "%s,%u,%.3f,%.3f,%.3f,%s\n", sim->policy->name, asked->priority,
                (double)asked->arrival_ns / NS_PER_S,
                state->first_token_ns == 0
                    ? -1
                    : (double)(state->first_token_ns - asked->arrival_ns) / NS_PER_S,
                (double)state->end_ns / NS_PER_S, outcome_names[state->outcome]);
    }
}

int main(int argc, char **argv) {
    static const struct policy policies[] = {
        {.name = "first come first served"},
        {.name = "the same with deadlines", .deadlines = true},
        {.name = "solfleet", .deadlines = true, .priorities = true}};
    const char *csv_path = NULL;
    uint64_t seed = 1;
    double load = 1;
    struct evening evening;
    static struct sim sim;
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--load") == 0) {
            load = strtod(argv[i + 1], NULL);
        } else if (strcmp(argv[i], "--csv") == 0) {
            csv_path = argv[i + 1];
        }
    }
    if (argc < 2 || argc % 2 != 0 || !evening_make(&evening, argv[1], seed, load)) {
        fprintf(stderr, "usage: sim LENGTHS.tsv [--seed N] [--load X] [--csv FILE]\n");
        return 2;
    }
    FILE *csv = csv_path != NULL ? fopen(csv_path, "w") : NULL;
    if (csv_path != NULL && csv == NULL) {
        fprintf(stderr, "cannot write %s\n", csv_path);
        return 2;
    }
    if (csv != NULL) {
        fprintf(csv, "policy,priority,arrival_s,wait_s,end_s,outcome\n");
    }
    printf(
        "seed %llu, load %.2f; refused: infeasible on arrival; cut: expired while running; wait: "
        "to the first token\n",
        (unsigned long long)seed, load);
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        sim_run(&sim, &policies[i], &evening);
        print_run(&sim);
        if (csv != NULL) {
            write_csv(csv, &sim);
        }
        sim_free(&sim);
    }
    if (csv != NULL) {
        fclose(csv);
    }
    evening_free(&evening);
    return 0;
}
