/* The texts that the table of options explains itself with. Any thread; no state. */
#ifndef SOLFLEET_CONSUMER_CONFIG_HELP_H
#define SOLFLEET_CONSUMER_CONFIG_HELP_H

#include <stdio.h>

#include "consumer/config.h"

/* What `solfleet COMMAND --help` says. */
void config_help_print(const struct config_spec *spec, FILE *out);

/* ops/CONFIGURATION.md. */
void config_help_markdown(FILE *out);

#endif
