#include "engine/scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"

#define SCHEDULER_NONE UINT32_MAX
#define SCHEDULER_CHUNK_SHARE 4 /* a part of a chunk is the oldest prompt's */

/* ---------------------------------------------------------------- lists */

static struct scheduler_entry *scheduler_entry(struct scheduler *scheduler, uint32_t handle) {
    assert(handle < scheduler->limits.handles_max);
    return &scheduler->entries[handle];
}

/* Puts an entry in behind `after`; SCHEDULER_NONE makes it the first. */
static void scheduler_link(struct scheduler *scheduler, struct scheduler_list *list,
                           uint32_t handle, uint32_t after) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    entry->previous = after;
    entry->next = list->first;
    if (after == SCHEDULER_NONE) {
        list->first = handle;
    } else {
        entry->next = scheduler_entry(scheduler, after)->next;
        scheduler_entry(scheduler, after)->next = handle;
    }
    if (entry->next == SCHEDULER_NONE) {
        list->last = handle;
    } else {
        scheduler_entry(scheduler, entry->next)->previous = handle;
    }
    list->count++;
}

static void scheduler_unlink(struct scheduler *scheduler, struct scheduler_list *list,
                             uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    if (entry->previous == SCHEDULER_NONE) {
        list->first = entry->next;
    } else {
        scheduler_entry(scheduler, entry->previous)->next = entry->next;
    }
    if (entry->next == SCHEDULER_NONE) {
        list->last = entry->previous;
    } else {
        scheduler_entry(scheduler, entry->next)->previous = entry->previous;
    }
    list->count--;
}

static struct scheduler_list *scheduler_list_of(struct scheduler *scheduler, uint32_t handle) {
    const struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    switch (entry->state) {
    case SCHEDULER_PREEMPTED: return &scheduler->preempted;
    case SCHEDULER_PREFILL: return &scheduler->prefill;
    case SCHEDULER_DECODE: return &scheduler->decode;
    case SCHEDULER_FREE:
    case SCHEDULER_WAITING: break;
    }
    assert(!"a sequence that has started");
    return NULL;
}

static bool scheduler_comes_before(const struct scheduler_entry *a,
                                   const struct scheduler_entry *b) {
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    if (a->arrival_ns != b->arrival_ns) {
        return a->arrival_ns < b->arrival_ns;
    }
    return a->number < b->number;
}

static uint32_t scheduler_missing(const struct scheduler_entry *entry) {
    return entry->known_tokens - entry->computed_tokens;
}

/* Among prompts under way. */
static bool scheduler_is_shorter(const struct scheduler_entry *a, const struct scheduler_entry *b) {
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    if (scheduler_missing(a) != scheduler_missing(b)) {
        return scheduler_missing(a) < scheduler_missing(b);
    }
    return a->turn < b->turn;
}

/* Puts an entry in at its place in a list that has an order: no longer than what runs. */
static void scheduler_link_by(struct scheduler *scheduler, struct scheduler_list *list,
                              uint32_t handle,
                              bool (*is_before)(const struct scheduler_entry *a,
                                                const struct scheduler_entry *b)) {
    const struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    uint32_t after = list->last;
    while (after != SCHEDULER_NONE && is_before(entry, scheduler_entry(scheduler, after))) {
        after = scheduler_entry(scheduler, after)->previous;
    }
    scheduler_link(scheduler, list, handle, after);
}

/* ---------------------------------------------------------------- life of a sequence */

bool scheduler_init(struct scheduler *scheduler, const struct scheduler_limits *limits,
                    const struct scheduler_pages *pages) {
    assert(limits->handles_max > 0 && limits->handles_max <= SCHEDULER_HANDLES_MAX);
    assert(limits->max_batch_size > 0 && limits->max_running > 0 && limits->max_batch_tokens > 0);
    assert(limits->prefill_chunk_tokens > 0 && limits->pages_total > 0);
    memset(scheduler, 0, sizeof *scheduler);
    scheduler->limits = *limits;
    scheduler->pages = *pages;
    scheduler->entries = calloc(limits->handles_max, sizeof *scheduler->entries);
    scheduler->picks = calloc(limits->max_batch_size, sizeof *scheduler->picks);
    scheduler->admitted = calloc(limits->max_batch_size, sizeof *scheduler->admitted);
    scheduler->resumed = calloc(limits->max_batch_size, sizeof *scheduler->resumed);
    scheduler->lost_pages = calloc(limits->max_running, sizeof *scheduler->lost_pages);
    const struct scheduler_list empty = {SCHEDULER_NONE, SCHEDULER_NONE, 0};
    scheduler->kept = SCHEDULER_NONE;
    scheduler->preempted = empty;
    scheduler->prefill = empty;
    scheduler->decode = empty;
    if (scheduler->entries == NULL || scheduler->picks == NULL || scheduler->admitted == NULL ||
        scheduler->resumed == NULL || scheduler->lost_pages == NULL ||
        !wait_queue_init(&scheduler->waiting, limits->handles_max, limits->priority_ageing_ns)) {
        scheduler_deinit(scheduler);
        return false;
    }
    return true;
}

void scheduler_deinit(struct scheduler *scheduler) {
    free(scheduler->entries);
    free(scheduler->picks);
    free(scheduler->admitted);
    free(scheduler->resumed);
    free(scheduler->lost_pages);
    wait_queue_deinit(&scheduler->waiting);
    memset(scheduler, 0, sizeof *scheduler);
}

void scheduler_add(struct scheduler *scheduler, uint32_t handle,
                   const struct scheduler_item *item) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    assert(entry->state == SCHEDULER_FREE);
    assert(item->pages_max >= 1 && item->pages_max <= scheduler->limits.pages_total);
    *entry = (struct scheduler_entry){.state = SCHEDULER_WAITING,
                                      .prompt_tokens = item->prompt_tokens,
                                      .known_tokens = item->prompt_tokens,
                                      .pages_max = item->pages_max,
                                      .priority = item->priority,
                                      .arrival_ns = item->arrival_ns,
                                      .number = scheduler->added_count++};
    const struct wait_queue_item waiting = {.prompt_tokens = item->prompt_tokens,
                                            .tokens = item->pages_max * KV_PAGE_TOKENS,
                                            .level = item->priority,
                                            .tenant = item->tenant,
                                            .arrival_ns = item->arrival_ns,
                                            .number = entry->number};
    wait_queue_add(&scheduler->waiting, handle, &waiting);
}

void scheduler_remove(struct scheduler *scheduler, uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    if (entry->state == SCHEDULER_WAITING) {
        wait_queue_remove(&scheduler->waiting, handle);
    } else {
        scheduler_unlink(scheduler, scheduler_list_of(scheduler, handle), handle);
    }
    if (entry->pages > 0) {
        scheduler->pages.release(scheduler->pages.context, handle);
    }
    if (scheduler->kept == handle) {
        scheduler->kept = SCHEDULER_NONE;
    }
    entry->pages = 0;
    entry->state = SCHEDULER_FREE;
}

void scheduler_drain(struct scheduler *scheduler) {
    scheduler->is_draining = true;
}

uint32_t scheduler_spare_positions(const struct scheduler *scheduler, uint32_t handle) {
    const struct scheduler_entry *entry = &scheduler->entries[handle];
    return entry->pages * KV_PAGE_TOKENS - entry->computed_tokens;
}

void scheduler_advance(struct scheduler *scheduler, uint32_t handle, uint32_t count) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    assert(entry->state == SCHEDULER_DECODE);
    assert(count <= scheduler_spare_positions(scheduler, handle));
    entry->computed_tokens += count;
    entry->known_tokens += count;
}

uint32_t scheduler_waiting_count(const struct scheduler *scheduler) {
    return scheduler->preempted.count + scheduler->waiting.count;
}

uint32_t scheduler_running_count(const struct scheduler *scheduler) {
    return scheduler->prefill.count + scheduler->decode.count;
}

/* ---------------------------------------------------------------- cut */

/* Whether a bucket is due with nothing running, and why; if not, *wake_ns is when it will be. */
static bool scheduler_is_due(const struct scheduler *scheduler, uint32_t index, int64_t now_ns,
                             enum engine_cut *why, int64_t *wake_ns) {
    const struct scheduler_limits *limits = &scheduler->limits;
    const struct wait_queue_bucket *bucket = &scheduler->waiting.buckets[index];
    uint32_t full =
        limits->max_batch_size < limits->max_running ? limits->max_batch_size : limits->max_running;
    int64_t due_ns =
        wait_queue_bucket_oldest_ns(&scheduler->waiting, index) + limits->max_queue_delay_ns;
    if (bucket->list.count >= full) {
        *why = ENGINE_CUT_SIZE;
    } else if (bucket->prompt_tokens >= limits->max_batch_tokens) {
        *why = ENGINE_CUT_TOKENS;
    } else if (bucket->level_counts[0] > 0) {
        *why = ENGINE_CUT_PRIORITY;
    } else if (due_ns <= now_ns) {
        *why = ENGINE_CUT_DELAY;
    } else if (scheduler->is_draining) {
        *why = ENGINE_CUT_DRAIN;
    } else {
        *wake_ns = due_ns < *wake_ns ? due_ns : *wake_ns;
        return false;
    }
    return true;
}

/* Whether bucket a rather than b leads a cut. */
static bool scheduler_leads(const struct wait_queue *waiting, uint32_t a, uint32_t b) {
    uint32_t level_a = wait_queue_bucket_level(waiting, a);
    uint32_t level_b = wait_queue_bucket_level(waiting, b);
    if (level_a != level_b) {
        return level_a < level_b;
    }
    return wait_queue_bucket_oldest_ns(waiting, a) < wait_queue_bucket_oldest_ns(waiting, b);
}

/* The bucket that an idle device is to start, or WAIT_QUEUE_NONE. */
static uint32_t scheduler_find_cut(const struct scheduler *scheduler, int64_t now_ns,
                                   struct schedule *out) {
    const struct wait_queue *waiting = &scheduler->waiting;
    uint32_t lead = WAIT_QUEUE_NONE;
    for (uint32_t i = 0; i < BUCKET_COUNT_MAX; i++) {
        enum engine_cut why;
        if (waiting->buckets[i].list.count > 0 &&
            scheduler_is_due(scheduler, i, now_ns, &why, &out->wake_ns) &&
            (lead == WAIT_QUEUE_NONE || scheduler_leads(waiting, i, lead))) {
            lead = i;
            out->cut = why;
        }
    }
    return lead;
}

/* ---------------------------------------------------------------- preempt */

/* The last of the running ones in the order, but for the one that keeps its pages. */
static uint32_t scheduler_find_victim(struct scheduler *scheduler) {
    const struct scheduler_list *running[] = {&scheduler->prefill, &scheduler->decode};
    uint32_t victim = SCHEDULER_NONE;
    for (size_t i = 0; i < sizeof running / sizeof running[0]; i++) {
        for (uint32_t at = running[i]->first; at != SCHEDULER_NONE;
             at = scheduler_entry(scheduler, at)->next) {
            if (at != scheduler->kept && (victim == SCHEDULER_NONE ||
                                          scheduler_comes_before(scheduler_entry(scheduler, victim),
                                                                 scheduler_entry(scheduler, at)))) {
                victim = at;
            }
        }
    }
    assert(victim != SCHEDULER_NONE); /* the kept one by itself fits */
    return victim;
}

static void scheduler_preempt(struct scheduler *scheduler, struct schedule *out, uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    scheduler_unlink(scheduler, scheduler_list_of(scheduler, handle), handle);
    scheduler->pages.release(scheduler->pages.context, handle);
    entry->state = SCHEDULER_PREEMPTED;
    entry->computed_tokens = 0;
    entry->pages = 0;
    scheduler_link_by(scheduler, &scheduler->preempted, handle, scheduler_comes_before);
    scheduler->lost_pages[out->preempted_count++] = handle;
}

/* A page for the position that a sequence's next row has. */
static bool scheduler_has_room(struct scheduler *scheduler, uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    if (entry->computed_tokens < entry->pages * KV_PAGE_TOKENS) {
        return true;
    }
    assert(entry->pages < entry->pages_max);
    if (!scheduler->pages.grow(scheduler->pages.context, handle)) {
        return false;
    }
    entry->pages++;
    return true;
}

/* Room for all rows of answers that are due, at the cost of those who come last. */
static void scheduler_make_room(struct scheduler *scheduler, struct schedule *out) {
    uint32_t at = scheduler->decode.first;
    uint32_t count = 0;
    while (at != SCHEDULER_NONE && count < scheduler->limits.max_batch_size) {
        if (scheduler_has_room(scheduler, at)) {
            at = scheduler_entry(scheduler, at)->next;
            count++;
            continue;
        }
        scheduler_preempt(scheduler, out, scheduler_find_victim(scheduler));
        at = scheduler->decode.first; /* others may be due now; those with room keep it */
        count = 0;
    }
}

/* ---------------------------------------------------------------- admit */

struct scheduler_admission {
    uint32_t count;
    uint64_t tokens;
    bool is_closed; /* a limit was met */
};

/* Pages for the tokens known and one for those to come. */
static uint32_t scheduler_first_pages(const struct scheduler_entry *entry) {
    uint32_t pages = (entry->known_tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS + 1;
    return pages < entry->pages_max ? pages : entry->pages_max;
}

/* Gives a sequence its first pages, or closes the admission because it does not fit. */
static bool scheduler_has_place(struct scheduler *scheduler, uint32_t handle,
                                struct scheduler_admission *admission) {
    const struct scheduler_limits *limits = &scheduler->limits;
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    uint32_t pages = scheduler_first_pages(entry);
    admission->is_closed =
        admission->count >= limits->max_batch_size ||
        scheduler_running_count(scheduler) >= limits->max_running ||
        (admission->count > 0 &&
         admission->tokens + entry->known_tokens > limits->max_batch_tokens) ||
        !scheduler->pages.begin(scheduler->pages.context, handle, pages, &entry->computed_tokens);
    if (admission->is_closed) {
        return false;
    }
    assert(entry->computed_tokens < entry->prompt_tokens);
    entry->pages = pages;
    admission->count++;
    admission->tokens += entry->known_tokens;
    return true;
}

/* It is in no list now. */
static void scheduler_start(struct scheduler *scheduler, uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    entry->state = SCHEDULER_PREFILL;
    entry->turn = scheduler->started_count++;
    scheduler_link_by(scheduler, &scheduler->prefill, handle, scheduler_is_shorter);
}

static int64_t scheduler_aged_ns(const struct scheduler *scheduler,
                                 const struct scheduler_entry *entry) {
    return entry->arrival_ns + entry->priority * scheduler->limits.priority_ageing_ns;
}

/* Of the preempted ones the first that has aged, if no other keeps its pages. */
static uint32_t scheduler_find_aged(struct scheduler *scheduler, int64_t now_ns) {
    uint32_t aged = SCHEDULER_NONE;
    int64_t aged_ns = now_ns;
    for (uint32_t at = scheduler->preempted.first;
         at != SCHEDULER_NONE && scheduler->kept == SCHEDULER_NONE;
         at = scheduler_entry(scheduler, at)->next) {
        int64_t since_ns = scheduler_aged_ns(scheduler, scheduler_entry(scheduler, at));
        if (aged == SCHEDULER_NONE ? since_ns <= aged_ns : since_ns < aged_ns) {
            aged = at;
            aged_ns = since_ns;
        }
    }
    return aged;
}

static bool scheduler_resume(struct scheduler *scheduler, struct schedule *out, uint32_t handle,
                             struct scheduler_admission *admission) {
    if (!scheduler_has_place(scheduler, handle, admission)) {
        return false;
    }
    scheduler_unlink(scheduler, &scheduler->preempted, handle);
    scheduler_start(scheduler, handle);
    scheduler->resumed[out->resumed_count++] = handle;
    return true;
}

/* The level from which on nothing may start, because one that was preempted comes first. */
static uint32_t scheduler_resume_all(struct scheduler *scheduler, struct schedule *out,
                                     int64_t now_ns, struct scheduler_admission *admission) {
    uint32_t aged = scheduler_find_aged(scheduler, now_ns);
    if (aged != SCHEDULER_NONE) {
        if (!scheduler_resume(scheduler, out, aged, admission)) {
            return 0;
        }
        scheduler->kept = aged;
    }
    while (scheduler->preempted.count > 0) {
        uint32_t first = scheduler->preempted.first;
        if (!scheduler_resume(scheduler, out, first, admission)) {
            admission->is_closed = false; /* more urgent ones may still fit */
            return scheduler_entry(scheduler, first)->priority;
        }
    }
    return WAIT_QUEUE_LEVELS;
}

static void scheduler_admit(struct scheduler *scheduler, struct schedule *out, int64_t now_ns,
                            uint32_t level_end, struct scheduler_admission *admission) {
    struct wait_queue *waiting = &scheduler->waiting;
    uint32_t bucket = WAIT_QUEUE_NONE;
    uint32_t handle;
    while ((handle = wait_queue_peek(waiting, now_ns, level_end)) != WAIT_QUEUE_NONE) {
        uint32_t other = waiting->entries[handle].bucket;
        if ((scheduler->limits.bucket_strict && bucket != WAIT_QUEUE_NONE && bucket != other) ||
            !scheduler_has_place(scheduler, handle, admission)) {
            return;
        }
        bucket = other;
        wait_queue_start(waiting, handle);
        scheduler_start(scheduler, handle);
        scheduler->admitted[out->admitted_count++] = handle;
    }
}

/* Starts what may start now: all of it, or from idle nothing before a bucket is due. */
static void scheduler_start_waiting(struct scheduler *scheduler, struct schedule *out,
                                    int64_t now_ns, uint32_t level_end,
                                    struct scheduler_admission *admission) {
    uint32_t lead = WAIT_QUEUE_NONE;
    out->cut = ENGINE_CUT_JOIN;
    if (scheduler_running_count(scheduler) == 0) {
        lead = scheduler_find_cut(scheduler, now_ns, out);
        if (lead == WAIT_QUEUE_NONE) {
            return;
        }
    }
    if (out->cut == ENGINE_CUT_DELAY && !scheduler->was_running) {
        out->late_ns = now_ns - scheduler->limits.max_queue_delay_ns -
                       wait_queue_bucket_oldest_ns(&scheduler->waiting, lead);
    }
    wait_queue_begin_step(&scheduler->waiting, lead);
    scheduler_admit(scheduler, out, now_ns, level_end, admission);
}

/* ---------------------------------------------------------------- rows */

/* Picks to be made; they change nothing yet. */
struct scheduler_rows {
    struct pick *picks; /* [max_batch_size] */
    uint32_t count;
};

static void scheduler_plan(const struct scheduler *scheduler, struct scheduler_rows *rows,
                           uint32_t handle, uint32_t row_count) {
    const struct scheduler_entry *entry = &scheduler->entries[handle];
    uint32_t end = entry->computed_tokens + row_count;
    rows->picks[rows->count++] = (struct pick){.handle = handle,
                                               .first_position = entry->computed_tokens,
                                               .row_count = row_count,
                                               .is_sampled = end >= entry->known_tokens};
}

static void scheduler_plan_decode(const struct scheduler *scheduler, struct scheduler_rows *rows) {
    for (uint32_t at = scheduler->decode.first;
         at != SCHEDULER_NONE && rows->count < scheduler->limits.max_batch_size;
         at = scheduler->entries[at].next) {
        scheduler_plan(scheduler, rows, at, 1);
    }
}

static uint32_t scheduler_find_longest_under_way(const struct scheduler *scheduler) {
    uint32_t oldest = SCHEDULER_NONE;
    for (uint32_t at = scheduler->prefill.first; at != SCHEDULER_NONE;
         at = scheduler->entries[at].next) {
        if (oldest == SCHEDULER_NONE ||
            scheduler->entries[at].turn < scheduler->entries[oldest].turn) {
            oldest = at;
        }
    }
    return oldest;
}

static void scheduler_plan_prefill(const struct scheduler *scheduler, struct scheduler_rows *rows) {
    uint32_t places = scheduler->limits.max_batch_size - rows->count;
    uint32_t left = scheduler->limits.prefill_chunk_tokens;
    uint32_t oldest = scheduler_find_longest_under_way(scheduler);
    if (places == 0 || oldest == SCHEDULER_NONE) {
        return;
    }
    uint32_t missing = scheduler_missing(&scheduler->entries[oldest]);
    uint32_t reserved = (left + SCHEDULER_CHUNK_SHARE - 1) / SCHEDULER_CHUNK_SHARE;
    reserved = missing < reserved ? missing : reserved;
    left -= reserved;
    for (uint32_t at = scheduler->prefill.first;
         at != SCHEDULER_NONE && left > 0 && places > (oldest != SCHEDULER_NONE);
         at = scheduler->entries[at].next) {
        if (at == oldest) {
            left += reserved;
            oldest = SCHEDULER_NONE;
        }
        uint32_t wanted = scheduler_missing(&scheduler->entries[at]);
        uint32_t row_count = wanted < left ? wanted : left;
        scheduler_plan(scheduler, rows, at, row_count);
        left -= row_count;
        places--;
    }
    if (oldest != SCHEDULER_NONE) {
        left += reserved;
        scheduler_plan(scheduler, rows, oldest, missing < left ? missing : left);
    }
}

static void scheduler_move_on(struct scheduler *scheduler, const struct pick *pick) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, pick->handle);
    bool was_decoding = entry->state == SCHEDULER_DECODE;
    scheduler_unlink(scheduler, scheduler_list_of(scheduler, pick->handle), pick->handle);
    entry->computed_tokens += pick->row_count;
    entry->known_tokens += pick->is_sampled;
    if (was_decoding || pick->is_sampled) { /* its next turn is the last */
        entry->state = SCHEDULER_DECODE;
        scheduler_link(scheduler, &scheduler->decode, pick->handle, scheduler->decode.last);
    } else {
        scheduler_link_by(scheduler, &scheduler->prefill, pick->handle, scheduler_is_shorter);
    }
}

uint32_t scheduler_foresee(const struct scheduler *scheduler, struct pick *picks) {
    struct scheduler_rows rows = {.picks = picks};
    scheduler_plan_decode(scheduler, &rows);
    scheduler_plan_prefill(scheduler, &rows);
    return rows.count;
}

void scheduler_next(struct scheduler *scheduler, int64_t now_ns, struct schedule *out) {
    struct scheduler_admission admission = {0};
    *out = (struct schedule){.picks = scheduler->picks,
                             .admitted = scheduler->admitted,
                             .resumed = scheduler->resumed,
                             .preempted = scheduler->lost_pages,
                             .wake_ns = SCHEDULER_WAKE_NEVER};
    scheduler_make_room(scheduler, out);
    uint32_t level_end = scheduler_resume_all(scheduler, out, now_ns, &admission);
    scheduler_start_waiting(scheduler, out, now_ns, level_end, &admission);
    out->batch_size = scheduler_running_count(scheduler);
    scheduler->was_running = out->batch_size > 0;
    out->pick_count = scheduler_foresee(scheduler, scheduler->picks);
    for (uint32_t i = 0; i < out->pick_count; i++) {
        const struct pick *pick = &scheduler->picks[i];
        if (scheduler->entries[pick->handle].state == SCHEDULER_PREFILL) {
            out->prefill_rows += pick->row_count;
        }
        scheduler_move_on(scheduler, pick);
    }
}
