#include "consumer/config_reader.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/config_value.h"

const char *config_reader_keep(struct config *config, const char *bytes, size_t size) {
    struct config_text *text = malloc(sizeof *text + size + 1);
    if (text == NULL) {
        abort();
    }
    memcpy(text->bytes, bytes, size);
    text->bytes[size] = '\0';
    text->next = config->texts_;
    config->texts_ = text;
    return text->bytes;
}

static const struct config_option *config_find(const struct config_option *options, size_t count,
                                               const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (config_value_same_name(options[i].name, name)) {
            return &options[i];
        }
    }
    return NULL;
}

const struct config_option *config_reader_find_shared(const char *name) {
    return config_find(config_table_options, config_table_option_count, name);
}

/* What is called `name` elsewhere, in whatever case and with - or _; NULL when nothing is. */
const struct config_table_alias *config_reader_find_alias(const char *name, size_t size) {
    for (size_t i = 0; i < config_table_alias_count; i++) {
        const char *alias = config_table_aliases[i].name;
        size_t same = 0;
        while (same < size && (name[same] == '-' ? '_' : tolower((unsigned char)name[same])) ==
                                  (unsigned char)alias[same]) {
            same++;
        }
        if (same == size && alias[same] == '\0') {
            return &config_table_aliases[i];
        }
    }
    return NULL;
}

const struct config_option *config_reader_find_own(const struct config_reader *reader,
                                                   const char *name) {
    return config_find(reader->spec->own, reader->spec->own_count, name);
}

static void config_nearest(const struct config_option *options, size_t count, unsigned commands,
                           const char *name, const char **best, unsigned *best_distance) {
    char plain[CONFIG_READER_NAME_BYTES_MAX];
    snprintf(plain, sizeof plain, "%s", name);
    for (char *at = plain; *at != '\0'; at++) {
        *at = *at == '-' ? '_' : (char)tolower((unsigned char)*at);
    }
    for (size_t i = 0; i < count; i++) {
        bool begun = plain[0] != '\0' && strncmp(options[i].name, plain, strlen(plain)) == 0;
        unsigned distance = begun ? 1 : config_value_distance(plain, options[i].name);
        bool heeded = options[i].commands == 0 || (options[i].commands & commands) != 0;
        if (heeded && distance < *best_distance) {
            *best = options[i].name;
            *best_distance = distance;
        }
    }
}

/* The valid name most like `name`; NULL when none is near. */
const char *config_reader_suggest(const struct config_reader *reader, const char *name,
                                  unsigned commands) {
    const struct config_table_alias *alias = config_reader_find_alias(name, strlen(name));
    if (alias != NULL && (config_reader_find_shared(alias->option)->commands & commands) != 0) {
        return alias->option;
    }
    const char *best = NULL;
    unsigned distance = (unsigned)strlen(name) / 3 + 2; /* farther is no help */
    config_nearest(reader->spec->own, reader->spec->own_count, ~0u, name, &best, &distance);
    config_nearest(config_table_options, config_table_option_count, commands, name, &best,
                   &distance);
    return best;
}

static void config_dashes(char *out, size_t out_bytes, const char *name) {
    snprintf(out, out_bytes, "%s", name);
    for (; *out != '\0'; out++) {
        if (*out == '_') {
            *out = '-';
        }
    }
}

bool config_reader_refuse_name(struct config_reader *reader, const char *name, const char *where) {
    const char *near = config_reader_suggest(reader, name, reader->spec->command);
    char flag[CONFIG_READER_NAME_BYTES_MAX] = "";
    if (near != NULL) {
        config_dashes(flag, sizeof flag, near);
    }
    if (config_reader_find_shared(name) != NULL) {
        snprintf(reader->err, reader->err_bytes, "%s is no option of `solfleet %s`", where,
                 reader->spec->name);
    } else if (near != NULL) {
        snprintf(reader->err, reader->err_bytes, "unknown option %s: did you mean --%s?", where,
                 flag);
    } else {
        snprintf(reader->err, reader->err_bytes, "unknown option %s: see `solfleet %s --help`",
                 where, reader->spec->name);
    }
    return false;
}

bool config_reader_takes_kafka(const struct config_reader *reader) {
    return (config_reader_find_shared("brokers")->commands & reader->spec->command) != 0;
}

bool config_reader_set_shared(struct config_reader *reader, const struct config_option *option,
                              const char *text, enum config_source source, const char *where) {
    size_t index = (size_t)(option - config_table_options);
    if (source < reader->source[index]) {
        return true;
    }
    reader->source[index] = (unsigned char)source;
    return config_value_set(option, reader->config, text, where, reader->err, reader->err_bytes);
}

bool config_reader_set_pass(struct config_reader *reader, const char *name, const char *text,
                            enum config_source source, const char *where) {
    struct config *config = reader->config;
    size_t at = 0;
    while (at < config->kafka_count && strcmp(config->kafka[at].name, name) != 0) {
        at++;
    }
    if (at == CONFIG_PASS_MAX || *name == '\0') {
        snprintf(reader->err, reader->err_bytes, "%s: %s", where,
                 *name == '\0' ? "the property's name is missing" : "too many kafka.* properties");
        return false;
    }
    if (at == config->kafka_count) {
        config->kafka[config->kafka_count++].name = config_reader_keep(config, name, strlen(name));
    } else if (source < reader->pass_source[at]) {
        return true;
    }
    reader->pass_source[at] = (unsigned char)source;
    config->kafka[at].value = text;
    return true;
}

void config_reader_warn(struct config_reader *reader, const char *format, ...) {
    struct config *config = reader->config;
    if (config->warning_count == CONFIG_WARNINGS_MAX) {
        return;
    }
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    config->warnings[config->warning_count++] = config_reader_keep(config, text, strlen(text));
}
