/* An engine's plan: its options with every default, and the bytes that it will reserve on a device,
 * by purpose.
 *
 * Made before anything is reserved: the engine logs it and `solfleet model` prints it, so that both
 * say the same. Functions of options, a model's configuration and a back end; any thread. A plan
 * stays where it was made, for its options name its row buckets. Refuses to know files and jobs. */
#ifndef SOLFLEET_ENGINE_ENGINE_PLAN_H
#define SOLFLEET_ENGINE_ENGINE_PLAN_H

#include "engine/engine.h"
#include "engine/forward.h"
#include "engine/model.h"

#define ENGINE_PLAN_DRAFT_ROWS_MAX 8 /* most rows of a step with drafts */
#define ENGINE_PLAN_BUCKETS_MAX 32   /* row buckets: powers of two */

struct engine_plan {
    struct model_options model_options; /* without a path */
    struct forward_options forward_options;
    struct model_plan model;
    struct forward_plan forward;
    size_t total_bytes;
    size_t budget_bytes; /* what the engine may take: more total_bytes than this do not fit */
    uint32_t row_buckets[ENGINE_PLAN_BUCKETS_MAX];
    uint32_t row_bucket_count; /* 0 where the device computes any number of rows as it stands */
};

void engine_plan_fill_defaults(struct engine_options *options);
/* BAD_OPTION: a filled option is out of its range, or the policy is unknown; err names it. */
enum engine_status engine_plan_check(const struct engine_options *options,
                                     enum model_policy *policy, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

/* The plan for filled and checked options; a max_model_len of 0 becomes the default. The KV cache
 * takes no more than a part of free_bytes by default (SIZE_MAX: no bound, whole contexts); whether
 * everything fits is the caller's to ask. BAD_OPTION: max_model_len; BAD_MODEL: a form that the
 * back end lacks; NO_DEVICE: a policy that it lacks. */
enum engine_status engine_plan_make(struct engine_plan *plan, struct engine_options *options,
                                    enum model_policy policy, const struct model_config *config,
                                    const struct device *device, size_t free_bytes, char *err,
                                    size_t err_bytes) __attribute__((warn_unused_result));

enum engine_status engine_plan_model_status(enum model_status status);

#endif
