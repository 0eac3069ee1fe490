#include "consumer/config_environment.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "consumer/config_env_file.h"

#define ENVIRONMENT_PREFIX "SOLFLEET_"
#define ENVIRONMENT_PREFIX_BYTES (sizeof ENVIRONMENT_PREFIX - 1)

/* "SOLFLEET_REDIS_TIMEOUT_MS" of "redis.timeout_ms". */
static void environment_variable(char *out, size_t out_bytes, const char *name) {
    snprintf(out, out_bytes, ENVIRONMENT_PREFIX "%s", name);
    for (; *out != '\0'; out++) {
        *out = *out == '.' ? '_' : (char)toupper((unsigned char)*out);
    }
}

/* SOLFLEET_REDIS_CLAIM_TIMEOUT_MS matches redis.claim_timeout_ms. */
static bool environment_matches(const char *variable, size_t size, const char *name) {
    for (size_t i = 0; i < size; i++) {
        char expected = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
        if (name[i] == '\0' || variable[i] != expected) {
            return false;
        }
    }
    return name[size] == '\0';
}

/* Says what a name of another server is called here. False when it is none. */
static bool environment_warn_of_alias(struct config_reader *reader, const char *where,
                                      const char *name, size_t size) {
    const struct config_table_alias *alias = config_reader_find_alias(name, size);
    if (alias == NULL) {
        return false;
    }
    char variable[CONFIG_READER_NAME_BYTES_MAX];
    environment_variable(variable, sizeof variable, alias->option);
    const char *note = alias->note;
    if ((config_reader_find_shared(alias->option)->commands & reader->spec->command) != 0) {
        config_reader_warn(reader, "%s is ignored: here it is %s%s%s%s", where, variable,
                           note[0] ? " (" : "", note, note[0] ? ")" : "");
    }
    return true;
}

static void environment_warn_of_variable(struct config_reader *reader, const char *where,
                                         const char *name, size_t size) {
    char plain[CONFIG_READER_NAME_BYTES_MAX];
    snprintf(plain, sizeof plain, "%.*s", (int)size, name);
    if (environment_warn_of_alias(reader, where, name, size)) {
        return;
    }
    const char *near = config_reader_suggest(reader, plain, ~0u);
    if (near != NULL) {
        char variable[CONFIG_READER_NAME_BYTES_MAX];
        environment_variable(variable, sizeof variable, near);
        config_reader_warn(reader, "%s is unknown and ignored: did you mean %s?", where, variable);
    }
}

static bool environment_read_kafka(struct config_reader *reader, const char *where,
                                   const char *variable, size_t size, const char *text,
                                   enum config_source source) {
    char name[CONFIG_READER_NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%.*s", (int)size, variable);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '_' ? '.' : (char)tolower((unsigned char)*at);
    }
    return config_reader_set_pass(reader, name, text, source, where);
}

/* Takes a variable by its name without SOLFLEET_. */
static bool environment_read_one(struct config_reader *reader, const char *where, const char *name,
                                 size_t size, const char *text, enum config_source source) {
    for (size_t i = 0; i < config_table_option_count; i++) {
        const struct config_option *option = &config_table_options[i];
        if (environment_matches(name, size, option->name)) {
            return (option->commands & reader->spec->command) == 0 ||
                   config_reader_set_shared(reader, option, text, source, where);
        }
    }
    if (strncmp(name, "KAFKA_", 6) == 0) {
        return !config_reader_takes_kafka(reader) ||
               environment_read_kafka(reader, where, name + 6, size - 6, text, source);
    }
    environment_warn_of_variable(reader, where, name, size);
    return true;
}

bool config_environment_read(struct config_reader *reader, char **environment) {
    for (char **entry = environment; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals == NULL || strncmp(*entry, ENVIRONMENT_PREFIX, ENVIRONMENT_PREFIX_BYTES) != 0) {
            continue;
        }
        size_t size = (size_t)(equals - *entry);
        const char *where = config_reader_keep(reader->config, *entry, size);
        if (!environment_read_one(reader, where, where + ENVIRONMENT_PREFIX_BYTES,
                                  size - ENVIRONMENT_PREFIX_BYTES, equals + 1,
                                  CONFIG_SOURCE_ENVIRONMENT)) {
            return false;
        }
    }
    return true;
}

/* ---- .env ---- */

/* Others' variables are not ours to judge, but those that mean a setting of ours are mentioned. */
static bool environment_take_line(void *context, size_t line, const char *key, const char *value) {
    struct config_reader *reader = context;
    struct config *config = reader->config;
    char place[2 * CONFIG_READER_NAME_BYTES_MAX + 32];
    snprintf(place, sizeof place, "%.90s:%zu: %.90s", config->env_file, line, key);
    const char *where = config_reader_keep(config, place, strlen(place));
    if (strncmp(key, ENVIRONMENT_PREFIX, ENVIRONMENT_PREFIX_BYTES) != 0) {
        environment_warn_of_alias(reader, where, key, strlen(key));
        return true;
    }
    const char *name = key + ENVIRONMENT_PREFIX_BYTES;
    return environment_read_one(reader, where, name, strlen(name),
                                config_reader_keep(config, value, strlen(value)),
                                CONFIG_SOURCE_ENV_FILE);
}

/* The file need not be there unless somebody named it. */
bool config_environment_read_file(struct config_reader *reader) {
    const char *path = reader->config->env_file;
    const struct config_option *option = config_reader_find_shared("env_file");
    bool named = reader->source[option - config_table_options] != CONFIG_SOURCE_DEFAULT;
    if (path[0] == '\0') {
        return true;
    }
    switch (
        config_env_file_read(path, environment_take_line, reader, reader->err, reader->err_bytes)) {
    case CONFIG_ENV_FILE_OK: return true;
    case CONFIG_ENV_FILE_MISSING:
        if (!named) {
            reader->err[0] = '\0';
        }
        return !named;
    case CONFIG_ENV_FILE_WRONG: break;
    }
    return false;
}
