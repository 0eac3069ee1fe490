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
    if (inflight->jobs == NULL || inflight->free_slots == NULL || inflight->generations == NULL) {
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

void inflight_list_append(struct inflight_list *list, struct inflight_job *job) {
    job->next = NULL;
    if (list->tail != NULL) {
        list->tail->next = job;
    } else {
        list->head = job;
    }
    list->tail = job;
    list->count++;
}

struct inflight_job *inflight_list_take(struct inflight_list *list) {
    struct inflight_job *job = list->head;
    if (job != NULL) {
        list->head = job->next;
        list->tail = list->head != NULL ? list->tail : NULL;
        list->count--;
        job->next = NULL;
    }
    return job;
}
