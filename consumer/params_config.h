/* The sampling parameters that a configuration gives to jobs which give none. Any thread; no state.
 * Refuses to know what a job says. */
#ifndef SOLFLEET_CONSUMER_PARAMS_CONFIG_H
#define SOLFLEET_CONSUMER_PARAMS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

struct config;
struct job_params;

/* Fills *out, which then owns nothing. False with the reason in err: a token id is none. */
bool params_config_read(const struct config *config, struct job_params *out, char *err,
                        size_t err_bytes) __attribute__((warn_unused_result));

#endif
