/* Delivery under random schedules: three workers, the real job_life and partition_table, the C
 * model of the Redis scripts, and everything that can be lost, late or dead in between.
 *
 * After a random part comes a fair one, without faults, in which every job must be answered. The
 * rules stand in delivery_world; a second set of cases breaks one rule each, to see that it is
 * caught. SOLFLEET_TEST_SEED=N begins with schedule N; with SOLFLEET_TEST_TELL=1 its events are
 * printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/delivery_broker.h"
#include "tests/support/delivery_engine.h"
#include "tests/support/delivery_link.h"
#include "tests/support/delivery_worker.h"
#include "tests/support/test.h"

#ifdef __OPTIMIZE__
enum { SCHEDULES = 100000 };
#else
enum { SCHEDULES = 3000 }; /* such builds run under valgrind */
#endif
enum { MUTANT_SCHEDULES = 200000, FAIR_STEPS = 20000 };

static struct delivery_coverage coverage;

struct schedule {
    struct delivery_world world;
    struct delivery_worker workers[DELIVERY_WORKERS];
};

/* ---- what can happen ------------------------------------------------------------------------- */

static struct delivery_worker *any_worker(struct schedule *schedule) {
    return &schedule->workers[delivery_world_below(&schedule->world, DELIVERY_WORKERS)];
}

static void pass_time(struct schedule *schedule) {
    for (int i = 0; i < DELIVERY_WORKERS; i++) {
        (void)delivery_link_renew(&schedule->workers[i]);
    }
    schedule->world.now_ms += DELIVERY_LEASE_MS / 3;
}

/* The group takes a partition away: asked for, or, of a worker that does not hear, just so. */
static void rebalance(struct schedule *schedule) {
    struct delivery_world *world = &schedule->world;
    int number = (int)delivery_world_below(world, DELIVERY_PARTITIONS);
    struct delivery_partition *partition = &world->partitions[number];
    if (partition->owner != DELIVERY_NOBODY) {
        struct delivery_worker *worker = &schedule->workers[partition->owner];
        if (delivery_world_below(world, 8) > 0) {
            (void)delivery_broker_revoke(worker, number, delivery_world_below(world, 2) == 0);
        }
        partition->owner = DELIVERY_NOBODY;
    }
}

static void assign(struct schedule *schedule) {
    int number = (int)delivery_world_below(&schedule->world, DELIVERY_PARTITIONS);
    (void)delivery_broker_assign(any_worker(schedule), number);
}

/* A worker hears that a partition has gone. */
static void learn(struct schedule *schedule) {
    struct delivery_worker *worker = any_worker(schedule);
    for (int number = 0; number < DELIVERY_PARTITIONS; number++) {
        const struct delivery_partition *partition = &schedule->world.partitions[number];
        if (partition->owner != worker->number ||
            partition->generation != worker->generation[number]) {
            (void)delivery_broker_revoke(worker, number, false);
        }
    }
}

static void crash(struct schedule *schedule) {
    (void)delivery_worker_crash(any_worker(schedule));
}

static void freeze(struct schedule *schedule) {
    struct delivery_worker *worker = any_worker(schedule);
    worker->is_frozen = worker->is_alive && !worker->is_frozen;
}

static void toggle_redis(struct schedule *schedule) {
    schedule->world.is_redis_up = !schedule->world.is_redis_up;
}

static void empty_redis(struct schedule *schedule) {
    delivery_world_empty_redis(&schedule->world);
}

struct happening {
    uint32_t weight;
    bool (*of_worker)(struct delivery_worker *worker);
    void (*of_all)(struct schedule *schedule);
};

static const struct happening fair[] = {
    {4, delivery_worker_receive, NULL},
    {8, delivery_link_serve, NULL},
    {8, delivery_link_hear, NULL},
    {4, delivery_engine_admit, NULL},
    {6, delivery_engine_compute, NULL},
    {6, delivery_broker_append, NULL},
    {6, delivery_broker_acknowledge, NULL},
    {4, delivery_broker_commit, NULL},
    {2, delivery_engine_due, NULL},
    {2, delivery_link_open, NULL},
    {2, delivery_worker_start, NULL},
    {2, NULL, pass_time},
    {2, delivery_engine_give_up, NULL},
    {2, NULL, assign},
    {1, NULL, learn},
};

static const struct happening faults[] = {
    {5, NULL, crash},
    {2, delivery_link_cut, NULL},
    {2, NULL, freeze},
    {12, delivery_link_expire, NULL},
    {5, NULL, rebalance},
    {3, delivery_engine_break, NULL},
    {4, delivery_engine_call_off, NULL},
    {1, NULL, toggle_redis},
};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* False when what was drawn could not happen. */
static bool happen(struct schedule *schedule, const struct happening *list, size_t count,
                   uint32_t weight_sum) {
    uint32_t at = delivery_world_below(&schedule->world, weight_sum);
    for (size_t i = 0; i < count; i++) {
        if (at < list[i].weight) {
            if (list[i].of_all == NULL) {
                return list[i].of_worker(any_worker(schedule));
            }
            list[i].of_all(schedule);
            return true;
        }
        at -= list[i].weight;
    }
    return false;
}

static uint32_t weight_of(const struct happening *list, size_t count) {
    uint32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += list[i].weight;
    }
    return sum;
}

/* ---- a schedule ------------------------------------------------------------------------------ */

/* Who runs what kills, dies of it: now and then. */
static void kill_by_poison(struct schedule *schedule) {
    for (int i = 0; i < DELIVERY_WORKERS; i++) {
        if (delivery_engine_runs_poison(&schedule->workers[i])) {
            (void)delivery_worker_crash(&schedule->workers[i]);
        }
    }
}

static bool is_over(const struct schedule *schedule) {
    for (int p = 0; p < DELIVERY_PARTITIONS; p++) {
        const struct delivery_partition *partition = &schedule->world.partitions[p];
        if (partition->committed < partition->end) {
            return false;
        }
    }
    for (int i = 0; i < DELIVERY_WORKERS; i++) {
        if (!delivery_worker_is_idle(&schedule->workers[i])) {
            return false;
        }
    }
    return true;
}

static bool is_terminal(enum status_state state) {
    return state == STATUS_DONE || state == STATUS_FAILED || state == STATUS_EXPIRED ||
           state == STATUS_CANCELLED;
}

static void check_end(struct schedule *schedule) {
    struct delivery_world *world = &schedule->world;
    for (int p = 0; p < DELIVERY_PARTITIONS; p++) {
        for (int i = 0; i < world->partitions[p].count; i++) {
            int id = world->partitions[p].log[i].id;
            if (!delivery_world_is_answered(world, p, i)) {
                delivery_world_violate(world, "every job is answered in the end");
            }
            if (!world->is_open[id] && !is_terminal(world->keys[id].state)) {
                delivery_world_violate(world, "every status is terminal in the end");
            }
        }
    }
}

static void run_fair_part(struct schedule *schedule) {
    uint32_t weight = weight_of(fair, COUNT(fair));
    schedule->world.is_redis_up = true;
    for (int i = 0; i < DELIVERY_WORKERS; i++) {
        schedule->workers[i].is_frozen = false;
    }
    for (int step = 0; step < FAIR_STEPS && schedule->world.violation == NULL; step++) {
        if (step % 16 == 0 && is_over(schedule)) {
            check_end(schedule);
            return;
        }
        if (step % 64 == 0 && delivery_world_below(&schedule->world, 4) == 0) {
            /* A dead worker's session ends. */
            for (int p = 0; p < DELIVERY_PARTITIONS; p++) {
                struct delivery_partition *partition = &schedule->world.partitions[p];
                if (partition->owner != DELIVERY_NOBODY &&
                    !partition_table_is_assigned(&schedule->workers[partition->owner].table, p)) {
                    partition->owner = DELIVERY_NOBODY;
                }
            }
        }
        (void)happen(schedule, fair, COUNT(fair), weight);
        if (step % 16 == 0) {
            kill_by_poison(schedule);
        }
    }
    delivery_world_violate(&schedule->world, "every job is answered in the end");
}

/* The rule that was broken, or NULL. */
static const char *run_schedule(uint64_t seed, enum delivery_mutation mutation) {
    static struct schedule schedule;
    struct delivery_world *world = &schedule.world;
    uint32_t fair_weight = weight_of(fair, COUNT(fair));
    uint32_t fault_weight = weight_of(faults, COUNT(faults));
    delivery_world_init(world, seed, mutation);
    world->is_told = getenv("SOLFLEET_TEST_TELL") != NULL;
    for (int i = 0; i < DELIVERY_WORKERS; i++) {
        delivery_worker_init(&schedule.workers[i], world, i, &coverage);
        (void)delivery_worker_start(&schedule.workers[i]);
    }
    bool loses_data = delivery_world_below(world, 8) == 0;
    uint32_t one_in = 4 + delivery_world_below(world, 60); /* quiet schedules go deeper */
    uint32_t steps = 40 + delivery_world_below(world, 120);
    for (uint32_t i = 0; i < steps && world->violation == NULL; i++) {
        if (delivery_world_below(world, one_in) > 0) {
            for (int tries = 0; tries < 8; tries++) {
                if (happen(&schedule, fair, COUNT(fair), fair_weight)) {
                    break;
                }
            }
        } else if (loses_data && delivery_world_below(world, 8) == 0) {
            empty_redis(&schedule);
        } else {
            (void)happen(&schedule, faults, COUNT(faults), fault_weight);
        }
        if (i % 16 == 0) {
            kill_by_poison(&schedule);
        }
    }
    run_fair_part(&schedule);
    for (int i = 0; i < DELIVERY_WORKERS; i++) {
        delivery_worker_deinit(&schedule.workers[i]);
    }
    return world->violation;
}

/* ---- coverage -------------------------------------------------------------------------------- */

/* The model has been everywhere: what it never meets, it proves nothing about. */
static void check_coverage(void) {
    static const int in_time[] = {
        STATUS_SCRIPT_LOST,   STATUS_SCRIPT_CONFLICT, STATUS_SCRIPT_NEW,      STATUS_SCRIPT_SEALED,
        STATUS_SCRIPT_POISON, STATUS_SCRIPT_HERE,     STATUS_SCRIPT_ELSEWHERE};
    static const int late[] = {STATUS_SCRIPT_LOST, STATUS_SCRIPT_CONFLICT, STATUS_SCRIPT_NEW,
                               STATUS_SCRIPT_SEALED};
    static const int seals[] = {STATUS_SCRIPT_LOST, STATUS_SCRIPT_CONFLICT, STATUS_SCRIPT_SEALED,
                                -DELIVERY_ANSWERS};
    for (size_t i = 0; i < COUNT(in_time); i++) {
        assert_int_not_equal(coverage.claims[-in_time[i]], 0);
    }
    for (size_t i = 0; i < COUNT(late); i++) {
        assert_int_not_equal(coverage.late_claims[-late[i]], 0);
    }
    for (size_t i = 0; i < COUNT(seals); i++) {
        assert_int_not_equal(coverage.seals[-seals[i]], 0);
    }
    assert_int_not_equal(coverage.known_records, 0);
    for (int action = JOB_LIFE_NOTHING; action < JOB_LIFE_ACTION_COUNT; action++) {
        assert_int_not_equal(coverage.actions[action], 0);
    }
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void keeps_every_rule_under_random_schedules(void **state) {
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < SCHEDULES; i++) {
        const char *broken = run_schedule(seed + i, DELIVERY_SOUND);
        if (broken != NULL) {
            fail_msg("broken: %s (SOLFLEET_TEST_SEED=%llu)", broken,
                     (unsigned long long)(seed + i));
        }
    }
    if (SCHEDULES >= 100000) {
        check_coverage();
    }
}

/* Some schedule breaks `rule` (or one that begins so), and none before it another. */
static void expect_caught(enum delivery_mutation mutation, const char *rule) {
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < MUTANT_SCHEDULES; i++) {
        const char *broken = run_schedule(seed + i, mutation);
        if (broken != NULL) {
            assert_memory_equal(broken, rule, strlen(rule));
            return;
        }
    }
    fail_msg("nothing was caught");
}

#define CATCHES(name, mutation, rule)  \
    static void name(void **state) {   \
        (void)state;                   \
        expect_caught(mutation, rule); \
    }
CATCHES(catches_a_worker_that_commits_before_the_acknowledgement,
        DELIVERY_COMMITS_BEFORE_THE_ACKNOWLEDGEMENT, "acknowledged before committed")
CATCHES(catches_a_worker_that_commits_past_the_unsettled, DELIVERY_COMMITS_PAST_THE_UNSETTLED,
        "acknowledged before committed")
CATCHES(catches_a_worker_whose_commits_call_settled_what_is_not,
        DELIVERY_CALLS_THE_UNSETTLED_SETTLED, "acknowledged before committed")
CATCHES(catches_a_worker_that_settles_what_another_runs, DELIVERY_SETTLES_WHAT_ANOTHER_RUNS,
        "acknowledged before committed")
CATCHES(catches_a_worker_that_writes_the_status_before_it_publishes,
        DELIVERY_FINISHES_BEFORE_PUBLISHING, "acknowledged before committed")
CATCHES(catches_a_worker_that_publishes_what_it_has_not_sealed, DELIVERY_PUBLISHES_UNSEALED,
        "one outcome per id")
CATCHES(catches_a_worker_that_publishes_its_own_where_another_is_sealed,
        DELIVERY_PUBLISHES_ITS_OWN_OVER_THE_SEALED, "one outcome per id")
CATCHES(catches_a_script_that_writes_over_a_terminal_state, DELIVERY_WRITES_OVER_A_TERMINAL_STATE,
        "terminal never goes back")
CATCHES(catches_a_worker_that_forgets_a_job_without_releasing_it,
        DELIVERY_FORGETS_WITHOUT_RELEASING, "deaths only by owners")
CATCHES(catches_a_worker_that_runs_suspects_with_others, DELIVERY_RUNS_SUSPECTS_WITH_OTHERS,
        "a suspect runs alone")
CATCHES(catches_a_worker_that_never_asks_again, DELIVERY_NEVER_ASKS_AGAIN,
        "every job is answered in the end")

TEST_MAIN(cmocka_unit_test(keeps_every_rule_under_random_schedules),
          cmocka_unit_test(catches_a_worker_that_commits_before_the_acknowledgement),
          cmocka_unit_test(catches_a_worker_that_commits_past_the_unsettled),
          cmocka_unit_test(catches_a_worker_whose_commits_call_settled_what_is_not),
          cmocka_unit_test(catches_a_worker_that_settles_what_another_runs),
          cmocka_unit_test(catches_a_worker_that_writes_the_status_before_it_publishes),
          cmocka_unit_test(catches_a_worker_that_publishes_what_it_has_not_sealed),
          cmocka_unit_test(catches_a_worker_that_publishes_its_own_where_another_is_sealed),
          cmocka_unit_test(catches_a_script_that_writes_over_a_terminal_state),
          cmocka_unit_test(catches_a_worker_that_forgets_a_job_without_releasing_it),
          cmocka_unit_test(catches_a_worker_that_runs_suspects_with_others),
          cmocka_unit_test(catches_a_worker_that_never_asks_again))
