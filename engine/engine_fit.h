/* What would fit: the words for a plan that asks for more memory than there is.
 *
 * Functions of options, a model's configuration and a back end; any thread. Refuses to know files
 * and jobs. */
#ifndef SOLFLEET_ENGINE_ENGINE_FIT_H
#define SOLFLEET_ENGINE_ENGINE_FIT_H

#include "engine/engine_plan.h"

/* Says in err what `plan`, made for these options, needs and what there is, with the longest
 * max_model_len that would fit and the policy nearest in size that would. */
void engine_fit_explain(const struct engine_plan *plan, const struct engine_options *options,
                        const struct model_config *config, const struct device *device,
                        size_t free_bytes, char *err, size_t err_bytes);

#endif
