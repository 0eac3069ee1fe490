#include "consumer/config_help.h"

#include <ctype.h>
#include <string.h>

#include "consumer/config_table.h"
#include "consumer/config_value.h"

#define FLAG_COLUMN_BYTES 34

static const char *config_help_placeholder(const struct config_option *option) {
    switch (option->type) {
    case CONFIG_BOOL: return "";
    case CONFIG_INT: return " N";
    case CONFIG_REAL: return " X";
    case CONFIG_CHOICE: return " WORD";
    case CONFIG_LIST: return " A,B";
    case CONFIG_TEXT: break;
    }
    return " TEXT";
}

static void config_help_flag(const struct config_option *option, char *out, size_t out_bytes) {
    int size = snprintf(out, out_bytes, "--%s", option->name);
    for (char *at = out; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
    snprintf(out + size, out_bytes - (size_t)size, "%s", config_help_placeholder(option));
}

static void config_help_option(const struct config_option *option, FILE *out) {
    char flag[96];
    config_help_flag(option, flag, sizeof flag);
    fprintf(out, "  %-*s %s", FLAG_COLUMN_BYTES, flag, option->help);
    if (option->type == CONFIG_CHOICE) {
        fprintf(out, " (%s)", option->choices);
    }
    if (option->fallback != NULL && option->fallback[0] != '\0' && option->type != CONFIG_BOOL) {
        fprintf(out, " [%s]", option->fallback);
    }
    fputc('\n', out);
}

/* An option of the command's own stands in the place of a shared one. */
static bool config_help_is_own(const struct config_spec *spec, const struct config_option *option) {
    for (size_t i = 0; i < spec->own_count; i++) {
        if (config_value_same_name(spec->own[i].name, option->name)) {
            return true;
        }
    }
    return false;
}

static void config_help_options(const struct config_spec *spec, FILE *out) {
    for (size_t i = 0; i < spec->own_count; i++) {
        config_help_option(&spec->own[i], out);
    }
    for (size_t i = 0; i < config_table_option_count; i++) {
        const struct config_option *option = &config_table_options[i];
        if ((option->commands & spec->command) != 0 && !config_help_is_own(spec, option)) {
            config_help_option(option, out);
        }
    }
}

void config_help_print(const struct config_spec *spec, FILE *out) {
    fprintf(out, "usage: solfleet %s [options]%s%s\n\n%s\n\noptions:\n", spec->name,
            spec->usage[0] != '\0' ? " " : "", spec->usage, spec->summary);
    config_help_options(spec, out);
    fprintf(
        out,
        "  %-*s this text\n\nEach option may also stand in the environment (--log-level: "
        "SOLFLEET_LOG_LEVEL),\nso written in the file .env of this directory, or in the JSON file that "
        "--config names;\na flag beats the environment, that .env, that the JSON file.\n",
        FLAG_COLUMN_BYTES, "--help");
}

static void config_help_commands(unsigned commands, FILE *out) {
    if ((commands & CONFIG_COMMANDS_ALL) == CONFIG_COMMANDS_ALL) {
        fputs("all", out);
        return;
    }
    const char *separator = "";
    for (unsigned bit = 1; bit != 0 && bit <= commands; bit <<= 1) {
        const char *name = config_table_command_name(bit);
        if ((commands & bit) != 0 && name != NULL) {
            fprintf(out, "%s%s", separator, name);
            separator = ", ";
        }
    }
}

static void config_help_range(const struct config_option *option, FILE *out) {
    if (option->type == CONFIG_INT) {
        fprintf(out, "%.0f … %.0f", option->min, option->max);
    } else if (option->type == CONFIG_REAL) {
        fprintf(out, "%g … %g", option->min, option->max);
    } else if (option->type == CONFIG_CHOICE) {
        for (const char *at = option->choices; *at != '\0'; at++) {
            if (*at == '|') {
                fputs(", ", out);
            } else {
                fputc(*at, out);
            }
        }
    } else if (option->type == CONFIG_BOOL) {
        fputs("true, false", out);
    } else if (option->type == CONFIG_LIST) {
        fputs("list", out);
    }
}

static void config_help_row(const struct config_option *option, FILE *out) {
    const char *fallback = option->fallback != NULL ? option->fallback : "";
    fprintf(out, "| `%s` | %s%s%s | ", option->name, fallback[0] ? "`" : "", fallback,
            fallback[0] ? "`" : "");
    config_help_range(option, out);
    fprintf(out, " | %s | ", option->help);
    config_help_commands(option->commands, out);
    fputs(" |\n", out);
}

static void config_help_presets(FILE *out) {
    fputs("\n## Profiles\n\n| profile | option | default |\n|---|---|---|\n", out);
    for (size_t i = 0; i < config_table_preset_count; i++) {
        const struct config_table_preset *preset = &config_table_presets[i];
        fprintf(out, "| `%s` | `%s` | `%s` |\n", preset->profile, preset->option, preset->value);
    }
}

/* A name in capitals, as variables are written. */
static void config_help_capitals(const char *name, FILE *out) {
    for (; *name != '\0'; name++) {
        fputc(toupper((unsigned char)*name), out);
    }
}

static void config_help_aliases(FILE *out) {
    fputs("\n## Names that other servers use\n\n| there | here | what differs |\n|---|---|---|\n",
          out);
    for (size_t i = 0; i < config_table_alias_count; i++) {
        const struct config_table_alias *alias = &config_table_aliases[i];
        fputs("| `", out);
        config_help_capitals(alias->name, out);
        fputs("` | `SOLFLEET_", out);
        config_help_capitals(alias->option, out);
        fprintf(out, "` | %s |\n", alias->note);
    }
}

void config_help_markdown(FILE *out) {
    fputs(
        "# Configuration\n\n"
        "Generated from the table in `consumer/config_table.c` by `solfleet config --markdown`: "
        "do not edit.\n\n"
        "An option `max_batch_size` is the flag `--max-batch-size 32`, the environment variable "
        "`SOLFLEET_MAX_BATCH_SIZE=32`\nand the member `\"max_batch_size\": 32` of the JSON file "
        "that `--config FILE` (or `SOLFLEET_CONFIG`) names.\nA file `.env` in the working directory "
        "may hold the same variables, a line `SOLFLEET_MAX_BATCH_SIZE=32` each; other\nnames in "
        "it are left alone. `--env-file FILE` (or `SOLFLEET_ENV_FILE`) takes another file, "
        "`--env-file ''` none.\nA flag beats the environment, that `.env`, that the JSON file, "
        "that the profile, that the default. Unknown options are errors.\n`solfleet config` "
        "shows what is in effect, passwords masked.\n\n"
        "`kafka.NAME` sets librdkafka's property NAME (`--kafka.session.timeout.ms 6000`, "
        "`SOLFLEET_KAFKA_SESSION_TIMEOUT_MS`,\n`\"kafka.session.timeout.ms\": 6000`); the "
        "properties that delivery rests on can only be set with `--unsafe`.\n\n"
        "| option | default | range | what | commands |\n|---|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < config_table_option_count; i++) {
        config_help_row(&config_table_options[i], out);
    }
    config_help_presets(out);
    config_help_aliases(out);
}
