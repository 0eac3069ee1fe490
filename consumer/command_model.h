/* The exit code of a model that cannot be used, shared by the commands that open one. Pure. */
#ifndef SOLFLEET_CONSUMER_COMMAND_MODEL_H
#define SOLFLEET_CONSUMER_COMMAND_MODEL_H

#include "engine/model.h"

int command_model_exit(enum model_status status); /* a command_exit */

#endif
