#include "consumer/config.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/config_env_file.h"
#include "consumer/config_file.h"
#include "consumer/config_help.h"
#include "consumer/config_table.h"
#include "consumer/config_value.h"

#define NAME_BYTES_MAX 96
#define OPTIONS_MAX 128
#define ENVIRONMENT_PREFIX "SOLFLEET_"
#define ENVIRONMENT_PREFIX_BYTES (sizeof ENVIRONMENT_PREFIX - 1)

/* A string that lives as long as the configuration. */
struct config_text {
    struct config_text *next;
    char bytes[];
};

/* Where the value in effect came from; a later one of the same or a higher rank replaces it. */
enum config_source {
    SOURCE_DEFAULT,
    SOURCE_FILE,
    SOURCE_ENV_FILE,
    SOURCE_ENVIRONMENT,
    SOURCE_FLAG
};

struct reader {
    struct config *config;
    const struct config_spec *spec;
    unsigned char source[OPTIONS_MAX]; /* of the table's options */
    unsigned char pass_source[CONFIG_PASS_MAX];
    char *err;
    size_t err_bytes;
};

static const char *config_keep(struct config *config, const char *bytes, size_t size) {
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

static const struct config_option *config_find_shared(const char *name) {
    return config_find(config_table_options, config_table_option_count, name);
}

/* What is called `name` elsewhere, in whatever case and with - or _; NULL when nothing is. */
static const struct config_table_alias *config_find_alias(const char *name, size_t size) {
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

/* "SOLFLEET_REDIS_TIMEOUT_MS" of "redis.timeout_ms". */
static void config_variable(char *out, size_t out_bytes, const char *name) {
    snprintf(out, out_bytes, ENVIRONMENT_PREFIX "%s", name);
    for (; *out != '\0'; out++) {
        *out = *out == '.' ? '_' : (char)toupper((unsigned char)*out);
    }
}

static const struct config_option *config_find_own(const struct reader *reader, const char *name) {
    return config_find(reader->spec->own, reader->spec->own_count, name);
}

static void config_nearest(const struct config_option *options, size_t count, unsigned commands,
                           const char *name, const char **best, unsigned *best_distance) {
    char plain[NAME_BYTES_MAX];
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
static const char *config_suggest(const struct reader *reader, const char *name,
                                  unsigned commands) {
    const struct config_table_alias *alias = config_find_alias(name, strlen(name));
    if (alias != NULL && (config_find_shared(alias->option)->commands & commands) != 0) {
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

static bool config_refuse_name(struct reader *reader, const char *name, const char *where) {
    const char *near = config_suggest(reader, name, reader->spec->command);
    char flag[NAME_BYTES_MAX] = "";
    if (near != NULL) {
        config_dashes(flag, sizeof flag, near);
    }
    if (config_find_shared(name) != NULL) {
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

static bool config_set_shared(struct reader *reader, const struct config_option *option,
                              const char *text, enum config_source source, const char *where) {
    size_t index = (size_t)(option - config_table_options);
    if (source < reader->source[index]) {
        return true;
    }
    reader->source[index] = (unsigned char)source;
    return config_value_set(option, reader->config, text, where, reader->err, reader->err_bytes);
}

static bool config_set_pass(struct reader *reader, const char *name, const char *text,
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
        config->kafka[config->kafka_count++].name = config_keep(config, name, strlen(name));
    } else if (source < reader->pass_source[at]) {
        return true;
    }
    reader->pass_source[at] = (unsigned char)source;
    config->kafka[at].value = text;
    return true;
}

/* ---- flags ---- */

static bool config_takes_kafka(const struct reader *reader) {
    return (config_find_shared("brokers")->commands & reader->spec->command) != 0;
}

/* The option a flag names. *negated for --no-NAME of a boolean. */
static const struct config_option *config_flag_option(const struct reader *reader, const char *name,
                                                      bool *own, bool *negated) {
    *negated = false;
    for (int round = 0; round < 2; round++) {
        const struct config_option *option = config_find_own(reader, name);
        *own = option != NULL;
        if (option == NULL) {
            option = config_find_shared(name);
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
static bool config_read_flag(struct reader *reader, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    const char *equals = strchr(word, '=');
    size_t where_size = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const char *where = config_keep(reader->config, word, where_size);
    const char *name = where + 2;
    bool own = false, negated = false;
    bool pass = strncmp(name, "kafka.", 6) == 0 && config_takes_kafka(reader);
    const struct config_option *option =
        pass ? NULL : config_flag_option(reader, name, &own, &negated);
    if (option == NULL && !pass) {
        return config_refuse_name(reader, name, where);
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
        return config_set_pass(reader, name + 6, text, SOURCE_FLAG, where);
    }
    return own ? config_value_set(option, reader->spec->own_values, text, where, reader->err,
                                  reader->err_bytes)
               : config_set_shared(reader, option, text, SOURCE_FLAG, where);
}

static bool config_is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool config_read_flags(struct reader *reader, int argc, char **argv, bool *help) {
    struct config *config = reader->config;
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!options || word[0] != '-' || word[1] == '\0') {
            config->arguments[config->argument_count++] = argv[i];
        } else if (strcmp(word, "--") == 0) {
            options = false;
        } else if (config_is_help(word)) {
            *help = true;
            return true;
        } else if (word[1] != '-') {
            return config_refuse_name(reader, word + 1, word);
        } else if (!config_read_flag(reader, argc, argv, &i)) {
            return false;
        }
    }
    return true;
}

/* ---- environment ---- */

/* SOLFLEET_REDIS_CLAIM_TIMEOUT_MS matches redis.claim_timeout_ms. */
static bool config_environment_matches(const char *variable, size_t size, const char *name) {
    for (size_t i = 0; i < size; i++) {
        char expected = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
        if (name[i] == '\0' || variable[i] != expected) {
            return false;
        }
    }
    return name[size] == '\0';
}

static void config_warn(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void config_warn(struct reader *reader, const char *format, ...) {
    struct config *config = reader->config;
    if (config->warning_count == CONFIG_WARNINGS_MAX) {
        return;
    }
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    config->warnings[config->warning_count++] = config_keep(config, text, strlen(text));
}

/* Says what a name of another server is called here. False when it is none. */
static bool config_warn_of_alias(struct reader *reader, const char *where, const char *name,
                                 size_t size) {
    const struct config_table_alias *alias = config_find_alias(name, size);
    if (alias == NULL) {
        return false;
    }
    char variable[NAME_BYTES_MAX];
    config_variable(variable, sizeof variable, alias->option);
    const char *note = alias->note;
    if ((config_find_shared(alias->option)->commands & reader->spec->command) != 0) {
        config_warn(reader, "%s is ignored: here it is %s%s%s%s", where, variable,
                    note[0] ? " (" : "", note, note[0] ? ")" : "");
    }
    return true;
}

static void config_warn_of_variable(struct reader *reader, const char *where, const char *name,
                                    size_t size) {
    char plain[NAME_BYTES_MAX];
    snprintf(plain, sizeof plain, "%.*s", (int)size, name);
    if (config_warn_of_alias(reader, where, name, size)) {
        return;
    }
    const char *near = config_suggest(reader, plain, ~0u);
    if (near != NULL) {
        char variable[NAME_BYTES_MAX];
        config_variable(variable, sizeof variable, near);
        config_warn(reader, "%s is unknown and ignored: did you mean %s?", where, variable);
    }
}

static bool config_read_kafka_variable(struct reader *reader, const char *where,
                                       const char *variable, size_t size, const char *text,
                                       enum config_source source) {
    char name[NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%.*s", (int)size, variable);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '_' ? '.' : (char)tolower((unsigned char)*at);
    }
    return config_set_pass(reader, name, text, source, where);
}

/* Takes a variable by its name without SOLFLEET_. */
static bool config_read_variable(struct reader *reader, const char *where, const char *name,
                                 size_t size, const char *text, enum config_source source) {
    for (size_t i = 0; i < config_table_option_count; i++) {
        const struct config_option *option = &config_table_options[i];
        if (config_environment_matches(name, size, option->name)) {
            return (option->commands & reader->spec->command) == 0 ||
                   config_set_shared(reader, option, text, source, where);
        }
    }
    if (strncmp(name, "KAFKA_", 6) == 0) {
        return !config_takes_kafka(reader) ||
               config_read_kafka_variable(reader, where, name + 6, size - 6, text, source);
    }
    config_warn_of_variable(reader, where, name, size);
    return true;
}

static bool config_read_environment(struct reader *reader, char **environment) {
    for (char **entry = environment; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals == NULL || strncmp(*entry, ENVIRONMENT_PREFIX, ENVIRONMENT_PREFIX_BYTES) != 0) {
            continue;
        }
        size_t size = (size_t)(equals - *entry);
        const char *where = config_keep(reader->config, *entry, size);
        if (!config_read_variable(reader, where, where + ENVIRONMENT_PREFIX_BYTES,
                                  size - ENVIRONMENT_PREFIX_BYTES, equals + 1,
                                  SOURCE_ENVIRONMENT)) {
            return false;
        }
    }
    return true;
}

/* ---- .env ---- */

/* Others' variables are not ours to judge, but those that mean a setting of ours are mentioned. */
static bool config_take_env_line(void *context, size_t line, const char *key, const char *value) {
    struct reader *reader = context;
    struct config *config = reader->config;
    char place[2 * NAME_BYTES_MAX + 32];
    snprintf(place, sizeof place, "%.90s:%zu: %.90s", config->env_file, line, key);
    const char *where = config_keep(config, place, strlen(place));
    if (strncmp(key, ENVIRONMENT_PREFIX, ENVIRONMENT_PREFIX_BYTES) != 0) {
        config_warn_of_alias(reader, where, key, strlen(key));
        return true;
    }
    const char *name = key + ENVIRONMENT_PREFIX_BYTES;
    return config_read_variable(reader, where, name, strlen(name),
                                config_keep(config, value, strlen(value)), SOURCE_ENV_FILE);
}

/* The file need not be there unless somebody named it. */
static bool config_read_env_file(struct reader *reader) {
    const char *path = reader->config->env_file;
    const struct config_option *option = config_find_shared("env_file");
    bool named = reader->source[option - config_table_options] != SOURCE_DEFAULT;
    if (path[0] == '\0') {
        return true;
    }
    switch (
        config_env_file_read(path, config_take_env_line, reader, reader->err, reader->err_bytes)) {
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

/* ---- file ---- */

static bool config_take_file_member(void *context, const char *name, const char *text) {
    struct reader *reader = context;
    struct config *config = reader->config;
    const char *kept = config_keep(config, text, strlen(text));
    char where[2 * NAME_BYTES_MAX];
    snprintf(where, sizeof where, "%.90s: %.90s", config->file, name);
    const struct config_option *option = config_find_shared(name);
    if (option == NULL && strncmp(name, "kafka.", 6) == 0) {
        return config_set_pass(reader, name + 6, kept, SOURCE_FILE, where);
    }
    if (option == NULL) {
        return config_refuse_name(reader, name, where);
    }
    return (option->commands & reader->spec->command) == 0 ||
           config_set_shared(reader, option, kept, SOURCE_FILE, where);
}

static bool config_read_file(struct reader *reader) {
    return reader->config->file == NULL ||
           config_file_read(reader->config->file, config_take_file_member, reader, reader->err,
                            reader->err_bytes);
}

/* ---- defaults ---- */

static void config_set_defaults(const struct config_option *options, size_t count, void *values) {
    for (size_t i = 0; i < count; i++) {
        char err[256];
        if (options[i].fallback != NULL &&
            !config_value_set(&options[i], values, options[i].fallback, options[i].name, err,
                              sizeof err)) {
            fprintf(stderr, "default of %s\n", err); /* a bug in a table */
            abort();
        }
    }
}

static bool config_apply_profile(struct reader *reader) {
    const char *profile = reader->config->profile;
    for (size_t i = 0; i < config_table_preset_count; i++) {
        const struct config_table_preset *preset = &config_table_presets[i];
        const struct config_option *option = config_find_shared(preset->option);
        if (strcmp(preset->profile, profile) == 0 &&
            reader->source[option - config_table_options] == SOURCE_DEFAULT &&
            !config_set_shared(reader, option, preset->value, SOURCE_DEFAULT, profile)) {
            return false;
        }
    }
    return true;
}

static bool config_check_arguments(struct reader *reader) {
    const struct config_spec *spec = reader->spec;
    size_t count = reader->config->argument_count;
    if (count >= spec->arguments_min && count <= spec->arguments_max) {
        return true;
    }
    if (count > spec->arguments_max) {
        snprintf(reader->err, reader->err_bytes,
                 "'%s' is one argument too many (usage: solfleet %s %s)",
                 reader->config->arguments[spec->arguments_max], spec->name, spec->usage);
    } else {
        snprintf(reader->err, reader->err_bytes, "too few arguments (usage: solfleet %s %s)",
                 spec->name, spec->usage);
    }
    return false;
}

enum config_status config_read(struct config *config, const struct config_spec *spec, int argc,
                               char **argv, char **environment, char *err, size_t err_bytes) {
    struct reader reader = {.config = config, .spec = spec, .err = err, .err_bytes = err_bytes};
    bool help = false;
    memset(config, 0, sizeof *config);
    if (config_table_option_count > OPTIONS_MAX) {
        abort();
    }
    config->arguments = calloc((size_t)argc + 1, sizeof *config->arguments);
    if (config->arguments == NULL) {
        abort();
    }
    config_set_defaults(config_table_options, config_table_option_count, config);
    config_set_defaults(spec->own, spec->own_count, spec->own_values);
    if (!config_read_flags(&reader, argc, argv, &help)) {
        return CONFIG_WRONG;
    }
    if (help) {
        config_help_print(spec, stdout);
        return CONFIG_HELP;
    }
    bool right = config_read_environment(&reader, environment) && config_read_env_file(&reader) &&
                 config_read_file(&reader) && config_apply_profile(&reader) &&
                 config_check_arguments(&reader);
    return right ? CONFIG_OK : CONFIG_WRONG;
}

int config_start(struct config *config, const struct config_spec *spec, int argc, char **argv,
                 int *exit_code) {
    char err[512];
    enum config_status status = config_read(config, spec, argc, argv, environ, err, sizeof err);
    *exit_code = status == CONFIG_WRONG ? 2 : 0;
    if (status == CONFIG_WRONG) {
        fprintf(stderr, "solfleet %s: %s\n", spec->name, err);
    }
    for (size_t i = 0; status == CONFIG_OK && i < config->warning_count; i++) {
        fprintf(stderr, "solfleet %s: %s\n", spec->name, config->warnings[i]);
    }
    return status == CONFIG_OK ? 0 : -1;
}

void config_deinit(struct config *config) {
    while (config->texts_ != NULL) {
        struct config_text *text = config->texts_;
        config->texts_ = text->next;
        free(text);
    }
    free(config->arguments);
    memset(config, 0, sizeof *config);
}

bool config_list_has(const char *list, const char *name) {
    size_t size = strlen(name);
    while (*list != '\0') {
        size_t span = strcspn(list, ",");
        if (span == size && memcmp(list, name, size) == 0) {
            return size > 0;
        }
        list += span + (list[span] == ',');
    }
    return false;
}
