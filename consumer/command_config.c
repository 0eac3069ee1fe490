#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/config_help.h"
#include "consumer/config_table.h"
#include "schemas/json_writer.h"

struct command_config_options {
    bool markdown;
};

static const struct config_option command_config_table[] = {
    {"markdown", CONFIG_BOOL, "false", 0, 0, NULL, 0,
     offsetof(struct command_config_options, markdown), "print ops/CONFIGURATION.md instead"},
};

static const char command_config_help[] =
    "Prints the value of every option as flags, environment and file give it: what a command would\n"
    "run with. Passwords are masked. With --json, an object that --config reads back.\n"
    "\n"
    "  solfleet config --config /etc/solfleet.json\n"
    "  SOLFLEET_BROKERS=kafka:9092 solfleet config --json > solfleet.json";

#define COMMAND_CONFIG_MASK "***"

/* ---- secrets --------------------------------------------------------------------------------- */

static bool command_config_is_secret(const char *name) {
    const char *const marks[] = {"password", "secret",      "token",
                                 "jaas",     "ssl.key.pem", "oauthbearer.config"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (strstr(name, marks[i])) {
            return true;
        }
    }
    return false;
}

/* The address with "***" for a password; as it stands when there is none. */
static const char *command_config_mask_redis(const char *text, char *out, size_t out_bytes) {
    const char *at = strrchr(text, '@');
    const char *scheme_end = strstr(text, "://");
    const char *login = scheme_end ? scheme_end + 3 : text;
    const char *colon = at ? memchr(login, ':', at > login ? (size_t)(at - login) : 0) : NULL;
    if (!colon) {
        return text;
    }
    snprintf(out, out_bytes, "%.*s:%s%s", (int)(colon - text), text, COMMAND_CONFIG_MASK, at);
    return out;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *command_config_text(const struct config *config,
                                       const struct config_option *option, char *scratch,
                                       size_t scratch_bytes) {
    const char *text = *(const char *const *)((const char *)config + option->offset);
    if (text && strcmp(option->name, "redis") == 0) {
        return command_config_mask_redis(text, scratch, scratch_bytes);
    }
    return text;
}

static void command_config_write_value(struct json_writer *writer, const struct config *config,
                                       const struct config_option *option) {
    const char *field = (const char *)config + option->offset;
    char scratch[1024];
    switch (option->type) {
    case CONFIG_BOOL: json_writer_bool(writer, *(const bool *)field); break;
    case CONFIG_INT: json_writer_int(writer, *(const int64_t *)field); break;
    case CONFIG_REAL: json_writer_double(writer, *(const double *)field); break;
    case CONFIG_TEXT:
    case CONFIG_CHOICE:
    case CONFIG_LIST:
        json_writer_string(writer, command_config_text(config, option, scratch, sizeof scratch));
        break;
    }
}

/* --config and --json say how this command runs; they are no settings to keep. */
static bool command_config_is_shown(const struct config_option *option) {
    return strcmp(option->name, "config") != 0 && strcmp(option->name, "json") != 0;
}

static int command_config_print_json(const struct config *config) {
    struct json_writer writer;
    json_writer_init(&writer, 4096);
    json_writer_begin_object(&writer);
    for (size_t i = 0; i < config_table_option_count; i++) {
        if (command_config_is_shown(&config_table_options[i])) {
            json_writer_key(&writer, config_table_options[i].name);
            command_config_write_value(&writer, config, &config_table_options[i]);
        }
    }
    for (size_t i = 0; i < config->kafka_count; i++) {
        char name[256];
        snprintf(name, sizeof name, "kafka.%s", config->kafka[i].name);
        json_writer_key(&writer, name);
        json_writer_string(&writer, command_config_is_secret(config->kafka[i].name)
                                        ? COMMAND_CONFIG_MASK
                                        : config->kafka[i].value);
    }
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    if (!text) {
        return command_fail("config", COMMAND_EXIT_BUG, "out of memory");
    }
    puts(text);
    free(text);
    return COMMAND_EXIT_OK;
}

static void command_config_print_line(const struct config *config,
                                      const struct config_option *option) {
    struct json_writer writer;
    json_writer_init(&writer, 64);
    command_config_write_value(&writer, config, option);
    char *text = json_writer_finish(&writer, NULL);
    printf("%-28s %-24s  %s\n", option->name, text ? text : "", option->help);
    free(text);
}

static int command_config_print(const struct config *config) {
    if (config->json) {
        return command_config_print_json(config);
    }
    for (size_t i = 0; i < config_table_option_count; i++) {
        if (command_config_is_shown(&config_table_options[i])) {
            command_config_print_line(config, &config_table_options[i]);
        }
    }
    for (size_t i = 0; i < config->kafka_count; i++) {
        const struct config_pass *pass = &config->kafka[i];
        printf("kafka.%-22s \"%s\"\n", pass->name,
               command_config_is_secret(pass->name) ? COMMAND_CONFIG_MASK : pass->value);
    }
    return COMMAND_EXIT_OK;
}

static int command_config_run(int argc, char **argv) {
    struct command_config_options options = {0};
    const struct config_spec spec = {
        .name = "config",
        .command = (enum config_command)0xffff, /* it takes what any command takes */
        .usage = "",
        .summary = command_config_help,
        .own = command_config_table,
        .own_count = 1,
        .own_values = &options,
    };
    struct config config;
    int code;
    if (config_start(&config, &spec, argc, argv, &code) == 0) {
        if (options.markdown) {
            config_help_markdown(stdout);
        } else {
            code = command_config_print(&config);
        }
    }
    config_deinit(&config);
    return code;
}

const struct command command_config_entry = {"config", "print what every option is set to",
                                             command_config_run};
