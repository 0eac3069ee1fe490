/* Sampling parameters on the wire: `params` of a job and of a result.
 *
 * Any thread; no state. Knows no vocabulary. */
#ifndef SOLFLEET_SCHEMAS_JOB_PARAMS_H
#define SOLFLEET_SCHEMAS_JOB_PARAMS_H

#include "schemas/job.h"
#include "schemas/json.h"
#include "schemas/json_writer.h"

/* Every field at its default; no seed, no strings. */
void job_params_init(struct job_params *params);
void job_params_deinit(struct job_params *params);

/* Reads a `params` object into initialised *params; what it does not say stays as it is (NULL:
 * all). On an error *params holds what was read so far and is still to be deinitialised. */
void job_params_decode(const struct json_node *object, struct job_params *params,
                       struct job_error *error);

/* Writes the object. `complete`: every field, as a result tells them; else only those that differ
 * from their defaults and the seed if it was given, as a job needs them. */
void job_params_encode(struct json_writer *writer, const struct job_params *params, bool complete);

/* A deep copy; *copy is zeroed when memory ran out. */
bool job_params_copy(const struct job_params *params, struct job_params *copy)
    __attribute__((warn_unused_result));

#endif
