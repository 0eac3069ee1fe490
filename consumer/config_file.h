/* A JSON file of options, handed on member by member as text. Any thread; no state. */
#ifndef SOLFLEET_CONSUMER_CONFIG_FILE_H
#define SOLFLEET_CONSUMER_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Gets an option as text: numbers as written, arrays of strings joined by commas. The texts are
 * borrowed for the call. False ends the reading; the taker has then filled err. */
typedef bool config_file_taker(void *context, const char *name, const char *text);

bool config_file_read(const char *path, config_file_taker *take, void *context, char *err,
                      size_t err_bytes);

#endif
