#include "engine/scheduler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
    case SCHEDULER_PREFILL: return &scheduler->prefill;
    case SCHEDULER_DECODE: return &scheduler->decode;
    case SCHEDULER_FREE: break;
    }
    assert(!"a handle that is in use");
    return NULL;
}

static void scheduler_move(struct scheduler *scheduler, uint32_t handle,
                           enum scheduler_state state) {
    scheduler_unlink(scheduler, scheduler_list_of(scheduler, handle), handle);
    scheduler_entry(scheduler, handle)->state = state;
    struct scheduler_list *list = scheduler_list_of(scheduler, handle);
    scheduler_link(scheduler, list, handle, list->last);
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

/* ---------------------------------------------------------------- life of a sequence */

bool scheduler_init(struct scheduler *scheduler, const struct scheduler_limits *limits) {
    assert(limits->handles_max > 0 && limits->handles_max <= SCHEDULER_HANDLES_MAX);
    assert(limits->max_batch_size > 0 && limits->max_running > 0 && limits->max_batch_tokens > 0);
    assert(limits->prefill_chunk_tokens > 0 && limits->pages_total > 0);
    memset(scheduler, 0, sizeof *scheduler);
    scheduler->limits = *limits;
    scheduler->pages_free = limits->pages_total;
    scheduler->entries = calloc(limits->handles_max, sizeof *scheduler->entries);
    scheduler->picks = calloc(limits->max_batch_size, sizeof *scheduler->picks);
    scheduler->admitted = calloc(limits->max_batch_size, sizeof *scheduler->admitted);
    const struct scheduler_list empty = {SCHEDULER_NONE, SCHEDULER_NONE, 0, 0};
    for (uint32_t i = 0; i < BUCKET_COUNT_MAX; i++) {
        scheduler->waiting[i] = empty;
    }
    scheduler->prefill = empty;
    scheduler->decode = empty;
    if (scheduler->entries == NULL || scheduler->picks == NULL || scheduler->admitted == NULL) {
        scheduler_deinit(scheduler);
        return false;
    }
    return true;
}

void scheduler_deinit(struct scheduler *scheduler) {
    free(scheduler->entries);
    free(scheduler->picks);
    free(scheduler->admitted);
    memset(scheduler, 0, sizeof *scheduler);
}

void scheduler_add(struct scheduler *scheduler, uint32_t handle, uint32_t prompt_tokens,
                   uint32_t pages, uint32_t priority, int64_t arrival_ns) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    assert(entry->state == SCHEDULER_FREE);
    assert(prompt_tokens >= 1 && pages >= 1 && pages <= scheduler->limits.pages_total);
    *entry = (struct scheduler_entry){.state = SCHEDULER_WAITING,
                                      .prompt_tokens = prompt_tokens,
                                      .pages = pages,
                                      .priority = priority,
                                      .bucket = bucket_index(prompt_tokens),
                                      .arrival_ns = arrival_ns,
                                      .number = scheduler->added_count++};
    struct scheduler_list *list = &scheduler->waiting[entry->bucket];
    uint32_t after = list->last;
    while (after != SCHEDULER_NONE &&
           scheduler_comes_before(entry, scheduler_entry(scheduler, after))) {
        after = scheduler_entry(scheduler, after)->previous;
    }
    scheduler_link(scheduler, list, handle, after);
}

void scheduler_remove(struct scheduler *scheduler, uint32_t handle) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    scheduler_unlink(scheduler, scheduler_list_of(scheduler, handle), handle);
    if (entry->state != SCHEDULER_WAITING) {
        scheduler->pages_free += entry->pages;
    }
    entry->state = SCHEDULER_FREE;
}

void scheduler_drain(struct scheduler *scheduler) {
    scheduler->is_draining = true;
}

uint32_t scheduler_waiting_count(const struct scheduler *scheduler) {
    uint32_t count = 0;
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

/* ---------------------------------------------------------------- admit */

struct scheduler_admission {
    uint32_t count;
    uint64_t prompt_tokens;
    bool is_closed; /* a limit was met */
};

static bool scheduler_fits(const struct scheduler *scheduler, const struct scheduler_entry *entry,
                           const struct scheduler_admission *admission) {
    const struct scheduler_limits *limits = &scheduler->limits;
    return admission->count < limits->max_batch_size &&
           scheduler_running_count(scheduler) < limits->max_running &&
           entry->pages <= scheduler->pages_free &&
           (admission->count == 0 ||
            admission->prompt_tokens + entry->prompt_tokens <= limits->max_batch_tokens);
}

/* Admits a bucket's sequences in their order until one does not fit. */
static void scheduler_admit_bucket(struct scheduler *scheduler, uint32_t bucket,
                                   struct scheduler_admission *admission) {
    struct scheduler_list *list = &scheduler->waiting[bucket];
    while (!admission->is_closed && list->count > 0) {
        uint32_t handle = list->first;
        const struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
        if (!scheduler_fits(scheduler, entry, admission)) {
            admission->is_closed = true;
            return;
        }
        scheduler->admitted[admission->count++] = handle;
        admission->prompt_tokens += entry->prompt_tokens;
        scheduler->pages_free -= entry->pages;
        scheduler_move(scheduler, handle, SCHEDULER_PREFILL);
    }
}

static uint32_t scheduler_admit(struct scheduler *scheduler, uint32_t lead) {
    struct scheduler_admission admission = {0};
    scheduler_admit_bucket(scheduler, lead, &admission);
    for (uint32_t d = 1; d < BUCKET_COUNT_MAX && !scheduler->limits.bucket_strict; d++) {
        if (lead >= d) {
            scheduler_admit_bucket(scheduler, lead - d, &admission);
        }
        if (lead + d < BUCKET_COUNT_MAX) {
            scheduler_admit_bucket(scheduler, lead + d, &admission);
        }
    }
    return admission.count;
}

/* ---------------------------------------------------------------- rows */

static void scheduler_pick(struct scheduler *scheduler, struct schedule *out, uint32_t handle,
                           uint32_t row_count) {
    struct scheduler_entry *entry = scheduler_entry(scheduler, handle);
    uint32_t end = entry->computed_tokens + row_count;
    scheduler->picks[out->pick_count++] = (struct pick){.handle = handle,
                                                        .first_position = entry->computed_tokens,
                                                        .row_count = row_count,
                                                        .is_sampled = end >= entry->prompt_tokens};
    entry->computed_tokens = end;
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
        uint32_t missing = entry->prompt_tokens - entry->computed_tokens;
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
    *out = (struct schedule){.picks = scheduler->picks,
                             .admitted = scheduler->admitted,
                             .wake_ns = SCHEDULER_WAKE_NEVER};
    uint32_t lead = scheduler_find_lead(scheduler, now_ns, &out->cut, &out->wake_ns);
    if (lead != SCHEDULER_NONE) {
        if (out->cut == ENGINE_CUT_DELAY && !scheduler->was_running) {
            out->late_ns = now_ns - scheduler->limits.max_queue_delay_ns -
                           scheduler_oldest_ns(scheduler, &scheduler->waiting[lead]);
        }
        out->admitted_count = scheduler_admit(scheduler, lead);
    }
    out->batch_size = scheduler_running_count(scheduler);
    scheduler->was_running = out->batch_size > 0;
    scheduler_pick_decode_rows(scheduler, out);
    scheduler_pick_prefill_rows(scheduler, out);
}
