/* The flags and arguments of a command line. Private to config_*.c; see config_reader. */
#ifndef SOLFLEET_CONSUMER_CONFIG_FLAGS_H
#define SOLFLEET_CONSUMER_CONFIG_FLAGS_H

#include "consumer/config_reader.h"

/* Reads up to --help, which only sets *help. The configuration has room for argc arguments. */
bool config_flags_read(struct config_reader *reader, int argc, char **argv, bool *help);

#endif
