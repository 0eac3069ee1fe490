/* The environment's variables, and those of the `.env` file. Private to config_*.c; see
 * config_reader. */
#ifndef SOLFLEET_CONSUMER_CONFIG_ENVIRONMENT_H
#define SOLFLEET_CONSUMER_CONFIG_ENVIRONMENT_H

#include "consumer/config_reader.h"

/* As environ; NULL = none. */
bool config_environment_read(struct config_reader *reader, char **environment);

/* The file that the option env_file names. */
bool config_environment_read_file(struct config_reader *reader);

#endif
