#include "consumer/config_flags.h"

#include <stdio.h>
#include <string.h>

#include "consumer/config_value.h"

/* The option a flag names. *negated for --no-NAME of a boolean. */
static const struct config_option *flags_option(const struct config_reader *reader,
                                                const char *name, bool *own, bool *negated) {
    *negated = false;
    for (int round = 0; round < 2; round++) {
        const struct config_option *option = config_reader_find_own(reader, name);
        *own = option != NULL;
        if (option == NULL) {
            option = config_reader_find_shared(name);
            if (option != NULL && (option->commands & reader->spec->command) == 0) {
                option = NULL;
            }
        }
        if (option != NULL && (!*negated || option->type == CONFIG_BOOL)) {
            return option;
        }
        if (strncmp(name, "no-", 3) != 0) {
            break;
        }
        name += 3;
        *negated = true;
    }
    return NULL;
}

/* Takes argv[*at] and, where the option needs one, its value from the next. */
static bool flags_read_one(struct config_reader *reader, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    const char *equals = strchr(word, '=');
    size_t where_size = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const char *where = config_reader_keep(reader->config, word, where_size);
    const char *name = where + 2;
    bool own = false, negated = false;
    bool pass = strncmp(name, "kafka.", 6) == 0 && config_reader_takes_kafka(reader);
    const struct config_option *option = pass ? NULL : flags_option(reader, name, &own, &negated);
    if (option == NULL && !pass) {
        return config_reader_refuse_name(reader, name, where);
    }
    const char *text = equals != NULL ? equals + 1 : NULL;
    if (text == NULL && option != NULL && option->type == CONFIG_BOOL) {
        text = negated ? "false" : "true";
    } else if (text == NULL && *at + 1 < argc) {
        text = argv[++*at];
    } else if (text == NULL || negated) {
        snprintf(reader->err, reader->err_bytes, "%s %s", where,
                 negated ? "takes no value" : "needs a value");
        return false;
    }
    if (pass) {
        return config_reader_set_pass(reader, name + 6, text, CONFIG_SOURCE_FLAG, where);
    }
    return own ? config_value_set(option, reader->spec->own_values, text, where, reader->err,
                                  reader->err_bytes)
               : config_reader_set_shared(reader, option, text, CONFIG_SOURCE_FLAG, where);
}

static bool flags_is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

bool config_flags_read(struct config_reader *reader, int argc, char **argv, bool *help) {
    struct config *config = reader->config;
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!options || word[0] != '-' || word[1] == '\0') {
            config->arguments[config->argument_count++] = argv[i];
        } else if (strcmp(word, "--") == 0) {
            options = false;
        } else if (flags_is_help(word)) {
            *help = true;
            return true;
        } else if (word[1] != '-') {
            return config_reader_refuse_name(reader, word + 1, word);
        } else if (!flags_read_one(reader, argc, argv, &i)) {
            return false;
        }
    }
    return true;
}
