#include "engine/scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"

#define SCHEDULER_NONE UINT32_MAX

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
    list->prompt_tokens += entry->prompt_tokens;
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
    list->prompt_tokens -= entry->prompt_tokens;
}

static struct scheduler_list *scheduler_list_of(struct scheduler *scheduler, uint32_t handle) {
    const struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    switch (entry->state) {
    case SCHEDULER_WAITING: return &scheduler->waiting[entry->bucket];
    case SCHEDULER_PREEMPTED: return &scheduler->preempted;
    case SCHEDULER_PREFILL: return &scheduler->prefill;
    case SCHEDULER_DECODE: return &scheduler->decode;
    case SCHEDULER_FREE: break;
    }
    assert(!"a handle that is in use");
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

/* Puts an entry in at its place in a list that has the order. */
static void scheduler_link_in_order(struct scheduler *scheduler, struct scheduler_list *list,
                                    uint32_t handle) {
    const struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    uint32_t after = list->last;
    while (after != SCHEDULER_NONE &&
           scheduler_comes_before(entry, scheduler_entry(scheduler, after))) {
        after = scheduler_entry(scheduler, after)->previous;
    }
    scheduler_link(scheduler, list, handle, after);
}

static void scheduler_move(struct scheduler *scheduler, uint32_t handle,
                           enum scheduler_state state) {
    scheduler_unlink(scheduler, scheduler_list_of(scheduler, handle), handle);
    scheduler_entry(scheduler, handle)->state = state;
    struct scheduler_list *list = scheduler_list_of(scheduler, handle);
    scheduler_link(scheduler, list, handle, list->last);
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
    const struct scheduler_list empty = {SCHEDULER_NONE, SCHEDULER_NONE, 0, 0};
    for (uint32_t i = 0; i < BUCKET_COUNT_MAX; i++) {
        scheduler->waiting[i] = empty;
    }
    scheduler->preempted = empty;
    scheduler->prefill = empty;
    scheduler->decode = empty;
    if (scheduler->entries == NULL || scheduler->picks == NULL || scheduler->admitted == NULL ||
        scheduler->resumed == NULL || scheduler->lost_pages == NULL) {
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
    memset(scheduler, 0, sizeof *scheduler);
}

void scheduler_add(struct scheduler *scheduler, uint32_t handle, uint32_t prompt_tokens,
                   uint32_t pages_max, uint32_t priority, int64_t arrival_ns) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    assert(entry->state == SCHEDULER_FREE);
    assert(prompt_tokens >= 1 && pages_max >= 1 && pages_max <= scheduler->limits.pages_total);
    *entry = (struct scheduler_entry){.state = SCHEDULER_WAITING,
                                      .prompt_tokens = prompt_tokens,
                                      .known_tokens = prompt_tokens,
                                      .pages_max = pages_max,
                                      .priority = priority,
                                      .bucket = bucket_index(prompt_tokens),
                                      .arrival_ns = arrival_ns,
                                      .number = scheduler->added_count++};
    scheduler_link_in_order(scheduler, &scheduler->waiting[entry->bucket], handle);
}

void scheduler_remove(struct scheduler *scheduler, uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    scheduler_unlink(scheduler, scheduler_list_of(scheduler, handle), handle);
    if (entry->pages > 0) {
        scheduler->pages.release(scheduler->pages.context, handle);
    }
    entry->pages = 0;
    entry->state = SCHEDULER_FREE;
}

void scheduler_drain(struct scheduler *scheduler) {
    scheduler->is_draining = true;
}

uint32_t scheduler_waiting_count(const struct scheduler *scheduler) {
    uint32_t count = scheduler->preempted.count;
    for (uint32_t i = 0; i < BUCKET_COUNT_MAX; i++) {
        count += scheduler->waiting[i].count;
    }
    return count;
}

uint32_t scheduler_running_count(const struct scheduler *scheduler) {
    return scheduler->prefill.count + scheduler->decode.count;
}

/* ---------------------------------------------------------------- cut */

static int64_t scheduler_oldest_ns(struct scheduler *scheduler, const struct scheduler_list *list) {
    int64_t oldest_ns = INT64_MAX;
    for (uint32_t at = list->first; at != SCHEDULER_NONE;
         at = scheduler_entry(scheduler, at)->next) {
        int64_t arrival_ns = scheduler_entry(scheduler, at)->arrival_ns;
        oldest_ns = arrival_ns < oldest_ns ? arrival_ns : oldest_ns;
    }
    return oldest_ns;
}

/* Whether a bucket is due with nothing running, and why; if not, *wake_ns is when it will be. */
static bool scheduler_is_due(struct scheduler *scheduler, const struct scheduler_list *list,
                             int64_t now_ns, enum engine_cut *why, int64_t *wake_ns) {
    const struct scheduler_limits *limits = &scheduler->limits;
    uint32_t full =
        limits->max_batch_size < limits->max_running ? limits->max_batch_size : limits->max_running;
    int64_t due_ns = scheduler_oldest_ns(scheduler, list) + limits->max_queue_delay_ns;
    if (list->count >= full) {
        *why = ENGINE_CUT_SIZE;
    } else if (list->prompt_tokens >= limits->max_batch_tokens) {
        *why = ENGINE_CUT_TOKENS;
    } else if (scheduler_entry(scheduler, list->first)->priority == 0) {
        *why = ENGINE_CUT_PRIORITY;
    } else if (due_ns <= now_ns) {
        *why = ENGINE_CUT_DELAY;
    } else if (scheduler->is_draining) {
        *why = ENGINE_CUT_DRAIN;
    } else {
        *wake_ns = due_ns;
        return false;
    }
    return true;
}

/* The bucket that leads the next cut, or SCHEDULER_NONE. */
static uint32_t scheduler_find_lead(struct scheduler *scheduler, int64_t now_ns,
                                    enum engine_cut *cut, int64_t *wake_ns) {
    bool is_idle = scheduler_running_count(scheduler) == 0;
    uint32_t lead = SCHEDULER_NONE;
    for (uint32_t i = 0; i < BUCKET_COUNT_MAX; i++) {
        const struct scheduler_list *list = &scheduler->waiting[i];
        enum engine_cut why = ENGINE_CUT_JOIN;
        int64_t due_ns = SCHEDULER_WAKE_NEVER;
        if (list->count == 0) {
            continue;
        }
        if (is_idle && !scheduler_is_due(scheduler, list, now_ns, &why, &due_ns)) {
            *wake_ns = due_ns < *wake_ns ? due_ns : *wake_ns;
            continue;
        }
        if (lead == SCHEDULER_NONE ||
            scheduler_comes_before(scheduler_entry(scheduler, list->first),
                                   scheduler_entry(scheduler, scheduler->waiting[lead].first))) {
            lead = i;
            *cut = why;
        }
    }
    return lead;
}

/* ---------------------------------------------------------------- preempt */

/* The last of the running ones in the order. */
static uint32_t scheduler_find_victim(struct scheduler *scheduler) {
    const struct scheduler_list *running[] = {&scheduler->prefill, &scheduler->decode};
    uint32_t victim = SCHEDULER_NONE;
    for (size_t i = 0; i < sizeof running / sizeof running[0]; i++) {
        for (uint32_t at = running[i]->first; at != SCHEDULER_NONE;
             at = scheduler_entry(scheduler, at)->next) {
            if (victim == SCHEDULER_NONE ||
                scheduler_comes_before(scheduler_entry(scheduler, victim),
                                       scheduler_entry(scheduler, at))) {
                victim = at;
            }
        }
    }
    return victim;
}

static void scheduler_preempt(struct scheduler *scheduler, struct schedule *out, uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    scheduler_unlink(scheduler, scheduler_list_of(scheduler, handle), handle);
    scheduler->pages.release(scheduler->pages.context, handle);
    entry->state = SCHEDULER_PREEMPTED;
    entry->computed_tokens = 0;
    entry->pages = 0;
    scheduler_link_in_order(scheduler, &scheduler->preempted, handle);
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

/* Starts a sequence, or closes the admission because it does not fit. */
static bool scheduler_start(struct scheduler *scheduler, uint32_t handle,
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
    scheduler_move(scheduler, handle, SCHEDULER_PREFILL);
    return true;
}

static void scheduler_resume(struct scheduler *scheduler, struct schedule *out,
                             struct scheduler_admission *admission) {
    while (!admission->is_closed && scheduler->preempted.count > 0) {
        uint32_t handle = scheduler->preempted.first;
        if (scheduler_start(scheduler, handle, admission)) {
            scheduler->resumed[out->resumed_count++] = handle;
        }
    }
    admission->is_closed = false; /* more urgent ones may still fit */
}

/* Whether a sequence must not start before one that was preempted. */
static bool scheduler_must_wait(struct scheduler *scheduler, uint32_t handle) {
    return scheduler->preempted.count > 0 &&
           scheduler_entry(scheduler, handle)->priority >=
               scheduler_entry(scheduler, scheduler->preempted.first)->priority;
}

/* Admits a bucket's sequences in their order until one does not fit. */
static void scheduler_admit_bucket(struct scheduler *scheduler, struct schedule *out,
                                   uint32_t bucket, struct scheduler_admission *admission) {
    struct scheduler_list *list = &scheduler->waiting[bucket];
    while (!admission->is_closed && list->count > 0) {
        uint32_t handle = list->first;
        if (scheduler_must_wait(scheduler, handle)) {
            admission->is_closed = true;
        } else if (scheduler_start(scheduler, handle, admission)) {
            scheduler->admitted[out->admitted_count++] = handle;
        }
    }
}

static void scheduler_admit(struct scheduler *scheduler, struct schedule *out, uint32_t lead,
                            struct scheduler_admission *admission) {
    scheduler_admit_bucket(scheduler, out, lead, admission);
    for (uint32_t d = 1; d < BUCKET_COUNT_MAX && !scheduler->limits.bucket_strict; d++) {
        if (lead >= d) {
            scheduler_admit_bucket(scheduler, out, lead - d, admission);
        }
        if (lead + d < BUCKET_COUNT_MAX) {
            scheduler_admit_bucket(scheduler, out, lead + d, admission);
        }
    }
}

/* ---------------------------------------------------------------- rows */

static void scheduler_pick(struct scheduler *scheduler, struct schedule *out, uint32_t handle,
                           uint32_t row_count) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    uint32_t end = entry->computed_tokens + row_count;
    scheduler->picks[out->pick_count++] = (struct pick){.handle = handle,
                                                        .first_position = entry->computed_tokens,
                                                        .row_count = row_count,
                                                        .is_sampled = end >= entry->known_tokens};
    entry->computed_tokens = end;
    entry->known_tokens += end >= entry->known_tokens;
}

static void scheduler_pick_decode_rows(struct scheduler *scheduler, struct schedule *out) {
    uint32_t running = scheduler->decode.count;
    uint32_t count =
        running < scheduler->limits.max_batch_size ? running : scheduler->limits.max_batch_size;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t handle = scheduler->decode.first;
        scheduler_pick(scheduler, out, handle, 1);
        scheduler_move(scheduler, handle, SCHEDULER_DECODE); /* its next turn is the last */
    }
}

static void scheduler_pick_prefill_rows(struct scheduler *scheduler, struct schedule *out) {
    uint32_t left = scheduler->limits.prefill_chunk_tokens;
    while (left > 0 && scheduler->prefill.count > 0 &&
           out->pick_count < scheduler->limits.max_batch_size) {
        uint32_t handle = scheduler->prefill.first;
        const struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
        uint32_t missing = entry->known_tokens - entry->computed_tokens;
        uint32_t row_count = missing < left ? missing : left;
        scheduler_pick(scheduler, out, handle, row_count);
        left -= row_count;
        out->prefill_rows += row_count;
        if (row_count == missing) {
            scheduler_move(scheduler, handle, SCHEDULER_DECODE);
        }
    }
}

void scheduler_next(struct scheduler *scheduler, int64_t now_ns, struct schedule *out) {
    struct scheduler_admission admission = {0};
    *out = (struct schedule){.picks = scheduler->picks,
                             .admitted = scheduler->admitted,
                             .resumed = scheduler->resumed,
                             .preempted = scheduler->lost_pages,
                             .wake_ns = SCHEDULER_WAKE_NEVER};
    scheduler_make_room(scheduler, out);
    scheduler_resume(scheduler, out, &admission);
    uint32_t lead = scheduler_find_lead(scheduler, now_ns, &out->cut, &out->wake_ns);
    if (lead != SCHEDULER_NONE) {
        if (out->cut == ENGINE_CUT_DELAY && !scheduler->was_running) {
            out->late_ns = now_ns - scheduler->limits.max_queue_delay_ns -
                           scheduler_oldest_ns(scheduler, &scheduler->waiting[lead]);
        }
        scheduler_admit(scheduler, out, lead, &admission);
    }
    out->batch_size = scheduler_running_count(scheduler);
    scheduler->was_running = out->batch_size > 0;
    scheduler_pick_decode_rows(scheduler, out);
    scheduler_pick_prefill_rows(scheduler, out);
}
