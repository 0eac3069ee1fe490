/* The engine with a model: what its two sides share. Private to engine_real.c and engine_step.c.
 *
 * engine_real.c opens, plans, admits and closes; engine_step.c is the step. */
#ifndef SOLFLEET_ENGINE_ENGINE_REAL_H
#define SOLFLEET_ENGINE_ENGINE_REAL_H

#include "engine/batch.h"
#include "engine/cost_model.h"
#include "engine/deadline_heap.h"
#include "engine/engine_methods.h"
#include "engine/engine_plan.h"
#include "engine/forward.h"
#include "engine/intake.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/ticket_index.h"

/* A stack of numbers not in use. */
struct engine_numbers {
    uint32_t *free; /* [count at open] */
    uint32_t free_count;
};

struct engine_real {
    struct engine base;
    struct engine_options options; /* defaults filled in */

    /* Made by open; used by the worker thread only, but for what is immutable. */
    struct intake intake;
    struct device_info device_info;
    struct model *model;
    struct engine_plan plan;

    /* The engine thread's. */
    struct device *device;
    struct forward *forward;
    struct batch batch;
    struct batch guess;    /* of the next step; zeroed where the device is the host */
    struct pick *foreseen; /* [max_batch_size], likewise */
    struct kv_cache cache;
    struct scheduler scheduler;
    struct sequence **sequences;    /* [tickets_max] by handle; NULL where the handle is free */
    struct ticket_index tickets;    /* to handles */
    struct deadline_heap deadlines; /* of handles */
    struct cost_model costs;
    struct engine_numbers handles; /* below tickets_max */
    struct engine_numbers slots;   /* below max_running */
    struct engine_stats stats;
};

/* engine_open's work. */
enum engine_status engine_real_open(const struct engine_options *options, struct engine **out,
                                    char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
