/* The profile of a measured engine's steps, printed: a table for people, fields of a JSON document.
 *
 * One thread. Refuses to measure. */
#ifndef SOLFLEET_CONSUMER_BENCH_ENGINE_PROFILE_H
#define SOLFLEET_CONSUMER_BENCH_ENGINE_PROFILE_H

#include "engine/step_profile.h"
#include "schemas/json_writer.h"

/* what: "prefill" or "decode". */
void bench_engine_profile_print(const char *what, const struct step_profile *profile);
/* Writes one value: an object. */
void bench_engine_profile_write(struct json_writer *writer, const struct step_profile *profile);

#endif
