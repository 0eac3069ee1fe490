/* The step from an option's text to its field. Any thread; no state. */
#ifndef SOLFLEET_CONSUMER_CONFIG_VALUE_H
#define SOLFLEET_CONSUMER_CONFIG_VALUE_H

#include "consumer/config.h"

/* Stores `text` in the option's field of `values`. Texts are borrowed: the caller keeps them.
 * `where` names the source in the message, e.g. "--max-batch-size". */
bool config_value_set(const struct config_option *option, void *values, const char *text,
                      const char *where, char *err, size_t err_bytes);

/* True for names that differ in nothing but `-` and `_`. */
bool config_value_same_name(const char *a, const char *b);

/* How many letters must be added, removed or changed to turn one name into the other. */
unsigned config_value_distance(const char *a, const char *b);

#endif
