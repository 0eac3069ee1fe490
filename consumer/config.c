#include "consumer/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/config_environment.h"
#include "consumer/config_file.h"
#include "consumer/config_flags.h"
#include "consumer/config_help.h"
#include "consumer/config_reader.h"
#include "consumer/config_table.h"
#include "consumer/config_value.h"

static bool config_take_file_member(void *context, const char *name, const char *text) {
    struct config_reader *reader = context;
    struct config *config = reader->config;
    const char *kept = config_reader_keep(config, text, strlen(text));
    char where[2 * CONFIG_READER_NAME_BYTES_MAX];
    snprintf(where, sizeof where, "%.90s: %.90s", config->file, name);
    const struct config_option *option = config_reader_find_shared(name);
    if (option == NULL && strncmp(name, "kafka.", 6) == 0) {
        return config_reader_set_pass(reader, name + 6, kept, CONFIG_SOURCE_FILE, where);
    }
    if (option == NULL) {
        return config_reader_refuse_name(reader, name, where);
    }
    return (option->commands & reader->spec->command) == 0 ||
           config_reader_set_shared(reader, option, kept, CONFIG_SOURCE_FILE, where);
}

static bool config_read_file(struct config_reader *reader) {
    return reader->config->file == NULL ||
           config_file_read(reader->config->file, config_take_file_member, reader, reader->err,
                            reader->err_bytes);
}

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

static bool config_apply_profile(struct config_reader *reader) {
    const char *profile = reader->config->profile;
    for (size_t i = 0; i < config_table_preset_count; i++) {
        const struct config_table_preset *preset = &config_table_presets[i];
        const struct config_option *option = config_reader_find_shared(preset->option);
        if (strcmp(preset->profile, profile) == 0 &&
            reader->source[option - config_table_options] == CONFIG_SOURCE_DEFAULT &&
            !config_reader_set_shared(reader, option, preset->value, CONFIG_SOURCE_DEFAULT,
                                      profile)) {
            return false;
        }
    }
    return true;
}

static bool config_check_arguments(struct config_reader *reader) {
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
    struct config_reader reader = {
        .config = config, .spec = spec, .err = err, .err_bytes = err_bytes};
    bool help = false;
    memset(config, 0, sizeof *config);
    if (config_table_option_count > CONFIG_READER_OPTIONS_MAX) {
        abort();
    }
    config->arguments = calloc((size_t)argc + 1, sizeof *config->arguments);
    if (config->arguments == NULL) {
        abort();
    }
    config_set_defaults(config_table_options, config_table_option_count, config);
    config_set_defaults(spec->own, spec->own_count, spec->own_values);
    if (!config_flags_read(&reader, argc, argv, &help)) {
        return CONFIG_WRONG;
    }
    if (help) {
        config_help_print(spec, stdout);
        return CONFIG_HELP;
    }
    bool right = config_environment_read(&reader, environment) &&
                 config_environment_read_file(&reader) && config_read_file(&reader) &&
                 config_apply_profile(&reader) && config_check_arguments(&reader);
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
