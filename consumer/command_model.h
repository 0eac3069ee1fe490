/* What the commands that take a model file have in common: which file, and the exit code when it
 * cannot be used. Pure. Refuses to know what a command does with a model. */
#ifndef SOLFLEET_CONSUMER_COMMAND_MODEL_H
#define SOLFLEET_CONSUMER_COMMAND_MODEL_H

#include "consumer/config.h"
#include "engine/model.h"

/* FILE, else --model; NULL when neither is given. Borrowed from the configuration. */
const char *command_model_path(const struct config *config);

int command_model_exit(enum model_status status); /* a command_exit */

#endif
