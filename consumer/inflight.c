#include "consumer/inflight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A ticket is generation * 2^24 + slot: unique for 2^38 stays in each slot. */
#define SLOT_BITS 24

bool inflight_init(struct inflight *inflight, uint32_t capacity) {
    assert(capacity > 0 && capacity <= INFLIGHT_CAPACITY_MAX);
    *inflight = (struct inflight){.capacity = capacity};
    inflight->jobs = calloc(capacity, sizeof *inflight->jobs);
    inflight->free_slots = calloc(capacity, sizeof *inflight->free_slots);
    inflight->generations = calloc(capacity, sizeof *inflight->generations);
    for (inflight->holders_size = 2; inflight->holders_size < 2 * capacity;) {
        inflight->holders_size *= 2; /* at most half full, so that searches stay short */
    }
    inflight->holders = calloc(inflight->holders_size, sizeof *inflight->holders);
    if (inflight->jobs == NULL || inflight->free_slots == NULL || inflight->generations == NULL ||
        inflight->holders == NULL) {
        inflight_deinit(inflight);
        return false;
    }
    for (uint32_t i = 0; i < capacity; i++) {
        inflight->free_slots[i] = capacity - 1 - i;
    }
    return true;
}

void inflight_deinit(struct inflight *inflight) {
    for (uint32_t i = 0; inflight->jobs != NULL && i < inflight->capacity; i++) {
        if (inflight->jobs[i].ticket != 0) {
            inflight_remove(inflight, &inflight->jobs[i]);
        }
    }
    free(inflight->jobs);
    free(inflight->free_slots);
    free(inflight->generations);
    free(inflight->holders);
    *inflight = (struct inflight){0};
}

struct inflight_job *inflight_add(struct inflight *inflight, const struct source_ref *ref,
                                  size_t value_bytes) {
    if (inflight->count == inflight->capacity) {
        return NULL;
    }
    uint32_t slot = inflight->free_slots[inflight->capacity - ++inflight->count];
    struct inflight_job *job = &inflight->jobs[slot];
    uint64_t generation = ++inflight->generations[slot];
    job->ticket = generation << SLOT_BITS | slot;
    job->source.ref = *ref;
    job->value_bytes = value_bytes;
    inflight->value_bytes += value_bytes;
    return job;
}

struct inflight_job *inflight_find(struct inflight *inflight, uint64_t ticket) {
    uint64_t slot = ticket & ((1u << SLOT_BITS) - 1);
    if (slot >= inflight->capacity || ticket == 0 || inflight->jobs[slot].ticket != ticket) {
        return NULL;
    }
    return &inflight->jobs[slot];
}

uint32_t inflight_slot(const struct inflight *inflight, const struct inflight_job *job) {
    return (uint32_t)(job - inflight->jobs);
}

struct inflight_job *inflight_next(struct inflight *inflight, const struct inflight_job *job) {
    for (uint32_t i = job == NULL ? 0 : inflight_slot(inflight, job) + 1; i < inflight->capacity;
         i++) {
        if (inflight->jobs[i].ticket != 0) {
            return &inflight->jobs[i];
        }
    }
    return NULL;
}

/* ---- holders: a hash table with linear probing ---- */

static uint32_t inflight_hash(const char *request_id) {
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (; *request_id != '\0'; request_id++) {
        hash = (hash ^ (uint8_t)*request_id) * 0x100000001b3;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

/* Where the id is, or the free place where it would be. */
static uint32_t inflight_probe(const struct inflight *inflight, const char *request_id,
                               uint32_t hash) {
    uint32_t mask = inflight->holders_size - 1;
    uint32_t at = hash & mask;
    for (; inflight->holders[at] != 0; at = (at + 1) & mask) {
        const struct inflight_job *job = &inflight->jobs[inflight->holders[at] - 1];
        if (job->hash == hash && strcmp(job->request_id, request_id) == 0) {
            break;
        }
    }
    return at;
}

bool inflight_hold(struct inflight *inflight, struct inflight_job *job) {
    uint32_t hash = inflight_hash(job->request_id);
    uint32_t at = inflight_probe(inflight, job->request_id, hash);
    uint32_t own = inflight_slot(inflight, job) + 1;
    if (inflight->holders[at] != 0) {
        return inflight->holders[at] == own;
    }
    inflight->holders[at] = own;
    job->hash = hash;
    job->is_holder = true;
    return true;
}

void inflight_let_go(struct inflight *inflight, struct inflight_job *job) {
    if (!job->is_holder) {
        return;
    }
    uint32_t mask = inflight->holders_size - 1;
    uint32_t gap = inflight_probe(inflight, job->request_id, job->hash);
    job->is_holder = false;
    /* Whoever stands behind the gap, and not before its own place by that, moves into it. */
    for (uint32_t at = (gap + 1) & mask; inflight->holders[at] != 0; at = (at + 1) & mask) {
        uint32_t home = inflight->jobs[inflight->holders[at] - 1].hash & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            inflight->holders[gap] = inflight->holders[at];
            gap = at;
        }
    }
    inflight->holders[gap] = 0;
}

struct inflight_job *inflight_holder(const struct inflight *inflight, const char *request_id) {
    uint32_t at = inflight_probe(inflight, request_id, inflight_hash(request_id));
    return inflight->holders[at] != 0 ? &inflight->jobs[inflight->holders[at] - 1] : NULL;
}

/* ---- what an entry owns ---- */

void inflight_join(struct inflight_job *job, const struct source_ref *ref) {
    struct inflight_source *more = malloc(sizeof *more);
    assert(more != NULL);
    *more = (struct inflight_source){.ref = *ref, .next = job->source.next};
    job->source.next = more;
}

static void inflight_free_params(struct job_params *params) {
    for (uint32_t i = 0; i < params->stop_count; i++) {
        free(params->stop[i]);
    }
}

void inflight_remove(struct inflight *inflight, struct inflight_job *job) {
    assert(job->record.handle == NULL && job->ticket != 0);
    inflight_let_go(inflight, job);
    inflight_list_remove(job);
    for (struct inflight_source *more = job->source.next; more != NULL;) {
        struct inflight_source *next = more->next;
        free(more);
        more = next;
    }
    if (job->has_job) {
        job_deinit(&job->job);
    }
    inflight_free_params(&job->params);
    carried_headers_deinit(&job->headers);
    free(job->progress_text);
    free(job->metadata);
    free(job->reply_topic);
    free(job->outcome.text);
    free(job->outcome.result);
    inflight->value_bytes -= job->value_bytes;
    inflight->free_slots[inflight->capacity - inflight->count--] = (uint32_t)(job - inflight->jobs);
    memset(job, 0, sizeof *job);
}

void inflight_copy_params(struct inflight_job *job, const struct job_params *params) {
    assert(!job->has_params);
    job->params = *params;
    job->has_params = true;
    for (uint32_t i = 0; i < params->stop_count; i++) {
        job->params.stop[i] = strdup(params->stop[i]);
        assert(job->params.stop[i] != NULL);
    }
}

/* ---- lists ---- */

void inflight_list_append(struct inflight_list *list, struct inflight_job *job) {
    inflight_list_remove(job);
    job->list = list;
    job->previous = list->tail;
    *(list->tail != NULL ? &list->tail->next : &list->head) = job;
    list->tail = job;
    list->count++;
}

void inflight_list_remove(struct inflight_job *job) {
    struct inflight_list *list = job->list;
    if (list == NULL) {
        return;
    }
    *(job->previous != NULL ? &job->previous->next : &list->head) = job->next;
    *(job->next != NULL ? &job->next->previous : &list->tail) = job->previous;
    job->list = NULL;
    job->next = job->previous = NULL;
    list->count--;
}

struct inflight_job *inflight_list_take(struct inflight_list *list) {
    struct inflight_job *job = list->head;
    if (job != NULL) {
        inflight_list_remove(job);
    }
    return job;
}
