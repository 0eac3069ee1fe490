/* The engine that a configuration asks for: its options, or itself, opened. Any thread; the engine
 * is the caller's. Refuses to know what the engine is for. */
#ifndef SOLFLEET_CONSUMER_ENGINE_CONFIG_H
#define SOLFLEET_CONSUMER_ENGINE_CONFIG_H

#include <stddef.h>

#include "engine/engine.h"

struct config;
struct log;

/* The tier that a device is opened with for a word of the option cpu_tier: NULL for `auto`. */
const char *engine_config_tier(const char *cpu_tier);

/* The options of the engine with a model; borrows config's strings. */
void engine_config_options(const struct config *config, struct engine_options *options);

/* The exit code that a status of the engine's is. */
int engine_config_exit(enum engine_status status);

/* Opens the engine, real or null, not started. Returns 0, or the exit code of the command with the
 * reason in err. Borrows config and log until the engine is closed. */
int engine_config_open(const struct config *config, struct log *log, struct engine **out, char *err,
                       size_t err_bytes) __attribute__((warn_unused_result));

#endif
