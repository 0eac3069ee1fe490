/* engine/scheduler and the wait_queue in it: random schedules beside a plain second version of all
 * their rules. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler.h"
#include "tests/support/counted_pages.h"
#include "tests/support/test.h"

#define TEXT_BYTES 8192

static void say(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(char *text, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, TEXT_BYTES - used, format, arguments);
    va_end(arguments);
}

/* ---------------------------------------------------------------- the obvious version */

enum { MODEL_HANDLES = 40 };

struct model_entry {
    enum scheduler_state state;
    uint32_t tokens, end, priority; /* end: tokens of prompt and answer */
    uint32_t known, computed, pages, pages_max;
    uint64_t tenant;
    int64_t arrival_ns, number, turn; /* turn: of its last decode row or its start */
};

/* A tenant's turns among those of one priority, while it has any waiting. */
struct model_flow {
    bool exists, served; /* served: in this step */
    int64_t balance, turn;
    uint32_t reference;
};

enum { MODEL_TENANTS = 3 };

struct plain {
    struct scheduler_limits limits;
    struct model_entry entries[MODEL_HANDLES];
    struct model_flow flows[WAIT_QUEUE_LEVELS][MODEL_TENANTS];
    bool is_draining;
    int64_t turns;
    uint32_t since_aged, aged_level;
    struct model_entry *kept;
    uint32_t started, started_tokens;
    uint32_t priorities; /* that jobs of this round have */
};

static struct plain *sorted_for; /* qsort has no context */

static int compare_by_order(const void *a, const void *b) {
    const struct model_entry *x = &sorted_for->entries[*(const uint32_t *)a];
    const struct model_entry *y = &sorted_for->entries[*(const uint32_t *)b];
    int64_t keys[3] = {(int64_t)x->priority - y->priority, x->arrival_ns - y->arrival_ns,
                       x->number - y->number};
    for (int i = 0; i < 3; i++) {
        if (keys[i] != 0) {
            return keys[i] < 0 ? -1 : 1;
        }
    }
    return 0;
}

/* Those in one of two states by priority and age. */
static uint32_t plain_list(struct plain *plain, uint32_t handles[MODEL_HANDLES],
                           enum scheduler_state one, enum scheduler_state other) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        if (plain->entries[i].state == one || plain->entries[i].state == other) {
            handles[count++] = i;
        }
    }
    sorted_for = plain;
    qsort(handles, count, sizeof *handles, compare_by_order);
    return count;
}

static uint32_t plain_sum(const struct plain *plain, bool of_pages) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        bool runs = plain->entries[i].state > SCHEDULER_PREEMPTED;
        sum += of_pages ? plain->entries[i].pages : runs;
    }
    return sum;
}

/* Why the bucket of this sequence is due from idle; ENGINE_CUT_COUNT if it is not. */
static enum engine_cut plain_due(const struct plain *plain, uint32_t bucket, int64_t now_ns) {
    uint32_t count = 0, tokens = 0, most_urgent = 9;
    int64_t oldest_ns = INT64_MAX;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        const struct model_entry *entry = &plain->entries[i];
        if (entry->state == SCHEDULER_WAITING && bucket_index(entry->tokens) == bucket) {
            count++;
            tokens += entry->tokens;
            most_urgent = entry->priority < most_urgent ? entry->priority : most_urgent;
            oldest_ns = entry->arrival_ns < oldest_ns ? entry->arrival_ns : oldest_ns;
        }
    }
    return count >= plain->limits.max_batch_size || count >= plain->limits.max_running
               ? ENGINE_CUT_SIZE
           : tokens >= plain->limits.max_batch_tokens               ? ENGINE_CUT_TOKENS
           : most_urgent == 0                                       ? ENGINE_CUT_PRIORITY
           : now_ns - oldest_ns >= plain->limits.max_queue_delay_ns ? ENGINE_CUT_DELAY
           : plain->is_draining                                     ? ENGINE_CUT_DRAIN
                                                                    : ENGINE_CUT_COUNT;
}

static struct model_entry *plain_next_turn(struct plain *plain, enum scheduler_state state,
                                           int64_t after, int64_t before) {
    struct model_entry *next = NULL;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        struct model_entry *entry = &plain->entries[i];
        if (entry->state == state && entry->turn > after && entry->turn < before &&
            (next == NULL || entry->turn < next->turn)) {
            next = entry;
        }
    }
    return next;
}

/* The first answer without room among those whose turn it is. */
static struct model_entry *plain_find_cramped(struct plain *plain) {
    int64_t after = -1;
    for (uint32_t i = 0; i < plain->limits.max_batch_size; i++) {
        struct model_entry *entry = plain_next_turn(plain, SCHEDULER_DECODE, after, INT64_MAX);
        if (entry == NULL || entry->computed == entry->pages * 16) {
            return entry;
        }
        after = entry->turn;
    }
    return NULL;
}

static void plain_make_room(struct plain *plain, char *text) {
    struct model_entry *cramped;
    while ((cramped = plain_find_cramped(plain)) != NULL) {
        uint32_t handles[MODEL_HANDLES];
        if (plain_sum(plain, true) < plain->limits.pages_total) {
            cramped->pages++;
            continue;
        }
        uint32_t count = plain_list(plain, handles, SCHEDULER_PREFILL, SCHEDULER_DECODE);
        uint32_t last = handles[count - 1];
        last = &plain->entries[last] == plain->kept ? handles[count - 2] : last;
        struct model_entry *victim = &plain->entries[last];
        say(text, " lost:%u", last);
        victim->state = SCHEDULER_PREEMPTED;
        victim->pages = 0;
    }
}

/* Any number of whole pages that hold no more than all tokens but the prompt's last. */
static uint32_t cached_tokens_of(uint32_t handle, uint32_t tokens) {
    return handle % 4 * 16 < (tokens - 1) / 16 * 16 ? handle % 4 * 16 : (tokens - 1) / 16 * 16;
}

static bool plain_start(struct plain *plain, uint32_t handle) {
    struct model_entry *entry = &plain->entries[handle];
    uint32_t most = entry->pages_max;
    uint32_t pages =
        counted_pages_of(entry->known) + 1 < most ? counted_pages_of(entry->known) + 1 : most;
    if (plain->started == plain->limits.max_batch_size ||
        plain_sum(plain, false) == plain->limits.max_running ||
        plain_sum(plain, true) + pages > plain->limits.pages_total ||
        (plain->started > 0 &&
         plain->started_tokens + entry->known > plain->limits.max_batch_tokens)) {
        return false;
    }
    entry->state = SCHEDULER_PREFILL;
    entry->turn = plain->turns++;
    entry->pages = pages;
    entry->computed = cached_tokens_of(handle, entry->tokens);
    plain->started++;
    plain->started_tokens += entry->known;
    return true;
}

/* The priority that a waiting sequence must be more urgent than. */
static uint32_t plain_resume(struct plain *plain, int64_t now_ns, char *text) {
    uint32_t handles[MODEL_HANDLES];
    uint32_t count = plain_list(plain, handles, SCHEDULER_PREEMPTED, SCHEDULER_PREEMPTED);
    struct model_entry *aged = NULL;
    int64_t ageing_ns = plain->limits.priority_ageing_ns;
    plain->started = plain->started_tokens = 0;
    for (uint32_t i = 0; i < count && plain->kept == NULL; i++) {
        struct model_entry *entry = &plain->entries[handles[i]];
        int64_t since_ns = entry->arrival_ns + entry->priority * ageing_ns;
        if (since_ns <= now_ns &&
            (aged == NULL || since_ns < aged->arrival_ns + aged->priority * ageing_ns)) {
            aged = entry;
        }
    }
    if (aged != NULL && !plain_start(plain, (uint32_t)(aged - plain->entries))) {
        return 0;
    }
    if (aged != NULL) {
        say(text, " back:%u", (uint32_t)(aged - plain->entries));
        plain->kept = aged;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (&plain->entries[handles[i]] == aged) {
            continue;
        }
        if (!plain_start(plain, handles[i])) {
            return plain->entries[handles[i]].priority;
        }
        say(text, " back:%u", handles[i]);
    }
    return UINT32_MAX;
}

/* The most urgent priority that waits, of one bucket or of all (UINT32_MAX). */
static uint32_t plain_most_urgent(const struct plain *plain, uint32_t bucket) {
    uint32_t priority = WAIT_QUEUE_LEVELS;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        const struct model_entry *entry = &plain->entries[i];
        if (entry->state == SCHEDULER_WAITING && entry->priority < priority &&
            (bucket == UINT32_MAX || bucket_index(entry->tokens) == bucket)) {
            priority = entry->priority;
        }
    }
    return priority;
}

static uint32_t plain_level(const struct plain *plain, int64_t now_ns, uint32_t barrier) {
    uint32_t top = plain_most_urgent(plain, UINT32_MAX);
    for (uint32_t i = 1; i <= WAIT_QUEUE_LEVELS && plain->since_aged >= 3; i++) {
        uint32_t level = (plain->aged_level + i) % WAIT_QUEUE_LEVELS;
        for (uint32_t j = 0; j < MODEL_HANDLES && level > top && level < barrier; j++) {
            const struct model_entry *entry = &plain->entries[j];
            if (entry->state == SCHEDULER_WAITING && entry->priority == level &&
                now_ns - entry->arrival_ns >= level * plain->limits.priority_ageing_ns) {
                return level;
            }
        }
    }
    return top;
}

static struct model_flow *plain_flow(struct plain *plain, uint32_t level) {
    for (;;) {
        struct model_flow *first = NULL;
        for (uint32_t i = 0; i < MODEL_TENANTS; i++) {
            struct model_flow *flow = &plain->flows[level][i];
            if (flow->exists && (first == NULL || flow->turn < first->turn)) {
                first = flow;
            }
        }
        if (first->balance > 0) {
            return first;
        }
        first->balance += WAIT_QUEUE_QUANTUM_TOKENS;
        first->turn = plain->turns++;
    }
}

/* Of one tenant and priority: the nearest to a bucket, or the oldest (UINT32_MAX). */
static uint32_t plain_choose(struct plain *plain, uint32_t level, uint64_t tenant,
                             uint32_t reference) {
    uint32_t handles[MODEL_HANDLES], best = UINT32_MAX;
    long best_distance = LONG_MAX;
    uint32_t count = plain_list(plain, handles, SCHEDULER_WAITING, SCHEDULER_WAITING);
    for (uint32_t i = 0; i < count; i++) {
        const struct model_entry *entry = &plain->entries[handles[i]];
        long bucket = bucket_index(entry->tokens);
        long distance = reference == UINT32_MAX ? 0 : 2 * labs(bucket - (long)reference);
        distance += distance > 0 && bucket > (long)reference;
        if (entry->priority == level && entry->tenant == tenant && distance < best_distance) {
            best = handles[i];
            best_distance = distance;
        }
    }
    return best;
}

/* When the last of a tenant and priority starts or leaves, its turn is forgotten. */
static void plain_forget_turns(struct plain *plain) {
    for (uint32_t level = 0; level < WAIT_QUEUE_LEVELS; level++) {
        for (uint32_t tenant = 0; tenant < MODEL_TENANTS; tenant++) {
            if (plain_choose(plain, level, tenant, UINT32_MAX) == UINT32_MAX) {
                plain->flows[level][tenant] = (struct model_flow){.exists = false};
            }
        }
    }
}

static void plain_count_start(struct plain *plain, uint32_t handle, uint32_t reference,
                              struct model_flow *flow) {
    struct model_entry *entry = &plain->entries[handle];
    uint32_t top = plain_most_urgent(plain, UINT32_MAX); /* entry has left */
    if (entry->priority > top) {
        plain->since_aged = 0;
        plain->aged_level = entry->priority;
    } else {
        plain->since_aged++;
    }
    flow->reference = !flow->served && reference == UINT32_MAX ? bucket_index(entry->tokens)
                      : !flow->served                          ? reference
                                                               : flow->reference;
    flow->served = true;
    flow->balance -= entry->pages_max * 16;
    plain_forget_turns(plain);
}

static void plain_admit(struct plain *plain, int64_t now_ns, uint32_t barrier, enum engine_cut cut,
                        uint32_t reference, char *text) {
    uint32_t bucket = UINT32_MAX;
    uint32_t level;
    while ((level = plain_level(plain, now_ns, barrier)) < barrier && level < WAIT_QUEUE_LEVELS) {
        struct model_flow *flow = plain_flow(plain, level);
        uint64_t tenant = (uint64_t)(flow - plain->flows[level]);
        uint32_t handle =
            plain_choose(plain, level, tenant, flow->served ? flow->reference : reference);
        uint32_t other = bucket_index(plain->entries[handle].tokens);
        if ((plain->limits.bucket_strict && bucket != UINT32_MAX && other != bucket) ||
            !plain_start(plain, handle)) {
            break;
        }
        bucket = other;
        plain_count_start(plain, handle, reference, flow);
        say(text, " %s:%u", engine_cut_name(cut), handle);
    }
}

static int64_t plain_oldest_ns(const struct plain *plain, uint32_t bucket) {
    int64_t oldest_ns = INT64_MAX;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        const struct model_entry *entry = &plain->entries[i];
        if (entry->state == SCHEDULER_WAITING && bucket_index(entry->tokens) == bucket &&
            entry->arrival_ns < oldest_ns) {
            oldest_ns = entry->arrival_ns;
        }
    }
    return oldest_ns;
}

static void plain_start_waiting(struct plain *plain, int64_t now_ns, uint32_t barrier, char *text) {
    enum engine_cut cut = ENGINE_CUT_JOIN;
    uint32_t lead = UINT32_MAX;
    for (uint32_t i = 0; i < WAIT_QUEUE_LEVELS * MODEL_TENANTS; i++) {
        plain->flows[i / MODEL_TENANTS][i % MODEL_TENANTS].served = false;
    }
    for (uint32_t bucket = 0; bucket < 64 && plain_sum(plain, false) == 0; bucket++) {
        enum engine_cut why = plain_due(plain, bucket, now_ns);
        if (plain_oldest_ns(plain, bucket) == INT64_MAX || why == ENGINE_CUT_COUNT) {
            continue;
        }
        uint32_t a = plain_most_urgent(plain, bucket);
        uint32_t b = lead == UINT32_MAX ? UINT32_MAX : plain_most_urgent(plain, lead);
        if (a < b || (a == b && plain_oldest_ns(plain, bucket) < plain_oldest_ns(plain, lead))) {
            lead = bucket;
            cut = why;
        }
    }
    if (plain_sum(plain, false) > 0 || lead != UINT32_MAX) {
        plain_admit(plain, now_ns, barrier, cut, lead, text);
    }
}

/* The next prompt to get rows: by priority, rows missing, start. */
static struct model_entry *plain_next_prompt(struct plain *plain, const bool *served) {
    struct model_entry *best = NULL;
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        struct model_entry *entry = &plain->entries[i];
        if (entry->state != SCHEDULER_PREFILL || served[i]) {
            continue;
        }
        int64_t keys[3] = {0};
        if (best != NULL) {
            keys[0] = (int64_t)entry->priority - best->priority;
            keys[1] = (int64_t)(entry->known - entry->computed) - (best->known - best->computed);
            keys[2] = entry->turn - best->turn;
        }
        if (best == NULL || (keys[0] != 0 ? keys[0] : keys[1] != 0 ? keys[1] : keys[2]) < 0) {
            best = entry;
        }
    }
    return best;
}

static void plain_prompt_rows(struct plain *plain, uint32_t places, char *text) {
    bool served[MODEL_HANDLES] = {false};
    uint32_t chunk = plain->limits.prefill_chunk_tokens;
    struct model_entry *oldest = plain_next_turn(plain, SCHEDULER_PREFILL, -1, INT64_MAX);
    uint32_t kept = 0; /* for the oldest */
    if (oldest != NULL && places > 0) {
        kept = (chunk + 3) / 4 < oldest->known - oldest->computed
                   ? (chunk + 3) / 4
                   : oldest->known - oldest->computed;
    }
    uint32_t left = chunk - kept;
    struct model_entry *entry;
    while (places > 0 && (entry = plain_next_prompt(plain, served)) != NULL) {
        if (oldest != NULL && (left == 0 || places == 1)) {
            entry = oldest;
        }
        left += entry == oldest ? kept : 0;
        oldest = entry == oldest ? NULL : oldest;
        uint32_t missing = entry->known - entry->computed;
        uint32_t rows = missing < left ? missing : left;
        if (rows == 0) {
            break;
        }
        say(text, " %u@%u+%u%s", (uint32_t)(entry - plain->entries), entry->computed, rows,
            rows == missing ? "!" : "");
        entry->computed += rows;
        left -= rows;
        places--;
        served[entry - plain->entries] = true;
        if (rows == missing) {
            entry->known++;
            entry->state = SCHEDULER_DECODE;
            entry->turn = plain->turns++;
        }
    }
}

static void plain_rows(struct plain *plain, char *text) {
    uint32_t picked = 0;
    int64_t before = plain->turns;
    struct model_entry *entry;
    while (picked < plain->limits.max_batch_size &&
           (entry = plain_next_turn(plain, SCHEDULER_DECODE, -1, before)) != NULL) {
        say(text, " %u@%u+1!", (uint32_t)(entry - plain->entries), entry->computed++);
        entry->known++;
        entry->turn = plain->turns++;
        picked++;
    }
    plain_prompt_rows(plain, plain->limits.max_batch_size - picked, text);
}

static void plain_step(struct plain *plain, int64_t now_ns, char *text) {
    plain_make_room(plain, text);
    plain_start_waiting(plain, now_ns, plain_resume(plain, now_ns, text), text);
    plain_rows(plain, text);
}

static void describe(const struct schedule *schedule, char *text) {
    for (uint32_t i = 0; i < schedule->preempted_count; i++) {
        say(text, " lost:%u", schedule->preempted[i]);
    }
    for (uint32_t i = 0; i < schedule->resumed_count; i++) {
        say(text, " back:%u", schedule->resumed[i]);
    }
    for (uint32_t i = 0; i < schedule->admitted_count; i++) {
        say(text, " %s:%u", engine_cut_name(schedule->cut), schedule->admitted[i]);
    }
    for (uint32_t i = 0; i < schedule->pick_count; i++) {
        const struct pick *pick = &schedule->picks[i];
        say(text, " %u@%u+%u%s", pick->handle, pick->first_position, pick->row_count,
            pick->is_sampled ? "!" : "");
    }
}

static struct scheduler_limits random_limits(uint64_t *random) {
    return (struct scheduler_limits){
        .handles_max = MODEL_HANDLES,
        .max_batch_size = 1 + (uint32_t)(test_random(random) % 8),
        .max_running = 1 + (uint32_t)(test_random(random) % 10),
        .max_batch_tokens = 20 + (uint32_t)(test_random(random) % 400),
        .prefill_chunk_tokens = 1 + (uint32_t)(test_random(random) % 100),
        .pages_total = 10 + (uint32_t)(test_random(random) % 20),
        .max_queue_delay_ns = (int64_t)(test_random(random) % 6),
        .priority_ageing_ns = (int64_t)(test_random(random) % 20),
        .bucket_strict = test_random(random) % 4 == 0,
    };
}

static void plain_leave(struct plain *plain, struct model_entry *entry) {
    plain->kept = plain->kept == entry ? NULL : plain->kept;
    *entry = (struct model_entry){.state = SCHEDULER_FREE};
    plain_forget_turns(plain);
}

static void change_at_random(struct scheduler *scheduler, struct counted_pages *pages,
                             struct plain *plain, int64_t now_ns, uint64_t *random) {
    uint32_t handle = (uint32_t)(test_random(random) % MODEL_HANDLES);
    struct model_entry *entry = &plain->entries[handle];
    if (entry->state != SCHEDULER_FREE) {
        if (test_random(random) % 16 == 0) {
            scheduler_remove(scheduler, handle);
            plain_leave(plain, entry);
        }
        return;
    }
    uint32_t tokens = 1 + (uint32_t)(test_random(random) % 100);
    *entry = (struct model_entry){.state = SCHEDULER_WAITING,
                                  .tokens = tokens,
                                  .end = tokens + 1 + (uint32_t)(test_random(random) % 60),
                                  .known = tokens,
                                  .priority = (uint32_t)(test_random(random) % plain->priorities),
                                  .tenant = test_random(random) % MODEL_TENANTS,
                                  .arrival_ns = now_ns - (int64_t)(test_random(random) % 3),
                                  .number = plain->turns++};
    uint32_t pages_min = counted_pages_of(entry->end - 1);
    entry->pages_max =
        pages_min + (uint32_t)(test_random(random) % (plain->limits.pages_total - pages_min + 1));
    pages->cached_tokens[handle] = cached_tokens_of(handle, tokens);
    const struct scheduler_item item = {.prompt_tokens = tokens,
                                        .pages_max = entry->pages_max,
                                        .priority = entry->priority,
                                        .tenant = entry->tenant,
                                        .arrival_ns = entry->arrival_ns};
    scheduler_add(scheduler, handle, &item);
    struct model_flow *flow = &plain->flows[entry->priority][entry->tenant];
    if (!flow->exists) {
        *flow = (struct model_flow){.exists = true, .turn = plain->turns++};
    }
}

static void retire_answers(struct scheduler *scheduler, struct plain *plain) {
    for (uint32_t i = 0; i < MODEL_HANDLES; i++) {
        struct model_entry *entry = &plain->entries[i];
        if (entry->state == SCHEDULER_DECODE && entry->known == entry->end) {
            scheduler_remove(scheduler, i);
            plain_leave(plain, entry);
        }
    }
}

/* The number of preemptions. */
static uint32_t run_beside_plain(uint64_t *random) {
    static struct plain plain;
    struct scheduler scheduler;
    struct counted_pages pages;
    uint32_t preemptions = 0;
    memset(&plain, 0, sizeof plain);
    plain.limits = random_limits(random);
    plain.since_aged = 3;
    plain.priorities = 1 + (uint32_t)(test_random(random) % WAIT_QUEUE_LEVELS);
    counted_pages_init(&scheduler, &plain.limits, &pages);
    for (int64_t now_ns = 0; now_ns < 400; now_ns++) {
        char expected[TEXT_BYTES] = "", got[TEXT_BYTES] = "";
        struct schedule schedule;
        for (uint64_t changes = test_random(random) % 3; changes > 0; changes--) {
            change_at_random(&scheduler, &pages, &plain, now_ns, random);
        }
        if (now_ns == 350) {
            scheduler_drain(&scheduler);
            plain.is_draining = true;
        }
        plain_step(&plain, now_ns, expected);
        scheduler_next(&scheduler, now_ns, &schedule);
        describe(&schedule, got);
        assert_string_equal(got, expected);
        assert_int_equal(pages.held_total, plain_sum(&plain, true));
        preemptions += schedule.preempted_count;
        retire_answers(&scheduler, &plain);
    }
    scheduler_deinit(&scheduler);
    return preemptions;
}

static void agrees_with_the_obvious_version_on_random_schedules(void **state) {
    uint64_t random = test_seed();
    uint32_t preemptions = 0;
    for (int round = 0; round < 200; round++) {
        preemptions += run_beside_plain(&random);
    }
    assert_true(preemptions > 200);
}

TEST_MAIN(cmocka_unit_test(agrees_with_the_obvious_version_on_random_schedules))
