/* A `.env` file: lines KEY=VALUE, handed on one by one.
 *
 * What tools that read such files agree on: blank lines, comments from `#` on, `export ` before a
 * key, values bare (blanks around them and ` # …` fall off), 'as they stand' or "with \n and other
 * escapes", both over several lines if need be. `$NAME` is not replaced. Any thread; no state.
 * Refuses to know what a key means. */
#ifndef SOLFLEET_CONSUMER_CONFIG_ENV_FILE_H
#define SOLFLEET_CONSUMER_CONFIG_ENV_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define CONFIG_ENV_FILE_BYTES_MAX 65536

enum config_env_file_status {
    CONFIG_ENV_FILE_OK = 0,
    CONFIG_ENV_FILE_MISSING,
    CONFIG_ENV_FILE_WRONG /* err names the line */
};

/* Gets one assignment; the texts are borrowed for the call. False ends the reading; the taker has
 * then filled err. */
typedef bool config_env_file_taker(void *context, size_t line, const char *key, const char *value);

/* Hands on each assignment of a text, which is changed on the way. `path` is for messages. */
bool config_env_file_parse(const char *path, char *text, config_env_file_taker *take, void *context,
                           char *err, size_t err_bytes);

enum config_env_file_status config_env_file_read(const char *path, config_env_file_taker *take,
                                                 void *context, char *err, size_t err_bytes)
    __attribute__((warn_unused_result));

#endif
