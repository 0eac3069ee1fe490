#include "consumer/command.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table: a command adds its line here when it lands ------------------------------------ */

static const struct command *const command_table[] = {
    NULL,
};

const struct command *command_at(size_t index) {
    size_t count = sizeof command_table / sizeof command_table[0] - 1;
    return index < count ? command_table[index] : NULL;
}

const struct command *command_find(const char *name) {
    for (size_t i = 0; command_at(i); i++) {
        if (strcmp(command_at(i)->name, name) == 0) {
            return command_at(i);
        }
    }
    return NULL;
}

/* ---- the command line ------------------------------------------------------------------------- */

static const struct command_option command_common_options[] = {
    {"json", NULL, "print JSON, one object a line"},
    {"help", NULL, "print this help"},
};
#define COMMAND_COMMON_COUNT (sizeof command_common_options / sizeof command_common_options[0])

static const struct command_option command_config_option = {
    "config", "FILE", "read settings from a JSON file (see solfleet config)"};

static const struct command_option *command_option_find(const struct command_option *options,
                                                        size_t count, const char *name,
                                                        size_t name_bytes) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(options[i].name) == name_bytes &&
            memcmp(options[i].name, name, name_bytes) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

/* The words of one command line, as they are taken one after the other. */
struct command_words {
    char **words;
    int count;
    int next;
};

/* Takes "--name=value" or "--name value"; false (err filled) when the value is missing or a flag
 * was given one. */
static bool command_take_value(struct command_words *words, const char *name, const char *equals,
                               bool is_flag, const char **value, char *err, size_t err_bytes) {
    if (is_flag && equals) {
        snprintf(err, err_bytes, "--%s takes no value", name);
        return false;
    }
    if (is_flag) {
        *value = "";
        return true;
    }
    if (equals) {
        *value = equals + 1;
        return true;
    }
    if (words->next >= words->count) {
        snprintf(err, err_bytes, "--%s needs a value", name);
        return false;
    }
    *value = words->words[words->next++];
    return true;
}

static bool command_take_option(struct command_line *line, struct command_words *words,
                                const char *word, char *err, size_t err_bytes) {
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t name_bytes = equals ? (size_t)(equals - name) : strlen(name);
    const struct command *command = line->command;
    const struct command_option *own =
        command_option_find(command->options, command->option_count, name, name_bytes);
    const struct command_option *common =
        own ? NULL
            : command_option_find(command_common_options, COMMAND_COMMON_COUNT, name, name_bytes);
    if (!own && !common && !command->takes_settings) {
        snprintf(err, err_bytes, "unknown option %.*s (see solfleet %s --help)",
                 (int)(name_bytes + 2), word, command->name);
        return false;
    }
    const struct command_option *known = own ? own : common;
    char *copy = strndup(name, name_bytes);
    const char *value = NULL;
    bool taken = copy && command_take_value(words, copy, equals, known && !known->value, &value,
                                            err, err_bytes);
    free(copy);
    if (!taken) {
        return false;
    }
    if (common) {
        line->json |= strcmp(common->name, "json") == 0;
        line->help |= strcmp(common->name, "help") == 0;
    } else if (own) {
        line->options[line->option_count++] = (struct command_given){own->name, value};
    } else {
        line->settings[line->setting_count++] = (struct command_given){name, value};
    }
    return true;
}

static bool command_take_word(struct command_line *line, struct command_words *words,
                              bool *only_positional, char *err, size_t err_bytes) {
    const char *word = words->words[words->next++];
    if (*only_positional || word[0] != '-' || word[1] == '\0') {
        line->positional[line->positional_count++] = word;
        return true;
    }
    if (strcmp(word, "--") == 0) {
        *only_positional = true;
        return true;
    }
    if (strcmp(word, "-h") == 0) {
        line->help = true;
        return true;
    }
    if (word[1] != '-') {
        snprintf(err, err_bytes, "unknown option %s (see solfleet %s --help)", word,
                 line->command->name);
        return false;
    }
    return command_take_option(line, words, word, err, err_bytes);
}

static bool command_check_count(const struct command_line *line, char *err, size_t err_bytes) {
    const struct command *command = line->command;
    if (line->positional_count >= command->positional_min &&
        line->positional_count <= command->positional_max) {
        return true;
    }
    const char *what = line->positional_count < command->positional_min ? "too few" : "too many";
    snprintf(err, err_bytes, "%s arguments: solfleet %s [OPTION...] %s", what, command->name,
             command->arguments);
    return false;
}

bool command_line_init(struct command_line *line, const struct command *command, int argc,
                       char **argv, char *err, size_t err_bytes) {
    *line = (struct command_line){.command = command};
    if (argc > COMMAND_WORDS_MAX) {
        snprintf(err, err_bytes, "more than %d words", COMMAND_WORDS_MAX);
        return false;
    }
    size_t words_max = (size_t)argc + 1;
    line->positional = calloc(words_max, sizeof *line->positional);
    line->options = calloc(words_max, sizeof *line->options);
    line->settings = calloc(words_max, sizeof *line->settings);
    if (!line->positional || !line->options || !line->settings) {
        snprintf(err, err_bytes, "out of memory");
        return false;
    }
    struct command_words words = {argv, argc, 0};
    bool only_positional = false;
    while (words.next < words.count) {
        if (!command_take_word(line, &words, &only_positional, err, err_bytes)) {
            return false;
        }
    }
    return line->help || command_check_count(line, err, err_bytes);
}

void command_line_deinit(struct command_line *line) {
    free(line->positional);
    free(line->options);
    free(line->settings);
    *line = (struct command_line){0};
}

const char *command_line_text(const struct command_line *line, const char *name) {
    const char *value = NULL;
    for (size_t i = 0; i < line->option_count; i++) {
        if (strcmp(line->options[i].name, name) == 0) {
            value = line->options[i].value;
        }
    }
    return value;
}

bool command_line_has(const struct command_line *line, const char *name) {
    return command_line_text(line, name) != NULL;
}

bool command_line_integer(const struct command_line *line, const char *name, int64_t min,
                          int64_t max, int64_t *out) {
    const char *text = command_line_text(line, name);
    if (!text) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max) {
        command_fail(line, COMMAND_EXIT_USAGE,
                     "--%s %s: a whole number from %lld to %lld is needed", name, text,
                     (long long)min, (long long)max);
        return false;
    }
    *out = value;
    return true;
}

bool command_line_number(const struct command_line *line, const char *name, double min, double max,
                         double *out) {
    const char *text = command_line_text(line, name);
    if (!text) {
        return true;
    }
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < min || value > max) {
        command_fail(line, COMMAND_EXIT_USAGE, "--%s %s: a number from %g to %g is needed", name,
                     text, min, max);
        return false;
    }
    *out = value;
    return true;
}

/* ---- what is said to the user ----------------------------------------------------------------- */

int command_fail(const struct command_line *line, enum command_exit code, const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "solfleet %s: ", line->command->name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return code;
}

#define COMMAND_HELP_COLUMN 26

static void command_print_option(const struct command_option *option, FILE *to) {
    int width = fprintf(to, "  --%s%s%s", option->name, option->value ? " " : "",
                        option->value ? option->value : "");
    int padding = width < COMMAND_HELP_COLUMN ? COMMAND_HELP_COLUMN - width : 2;
    fprintf(to, "%*s%s\n", padding, "", option->help);
}

void command_print_help(const struct command *command, FILE *to) {
    fprintf(to, "usage: solfleet %s [OPTION...]%s%s\n\n%s\n", command->name,
            command->arguments[0] ? " " : "", command->arguments, command->details);
    fprintf(to, "options:\n");
    for (size_t i = 0; i < command->option_count; i++) {
        command_print_option(&command->options[i], to);
    }
    if (command->takes_settings) {
        command_print_option(&command_config_option, to);
    }
    for (size_t i = 0; i < COMMAND_COMMON_COUNT; i++) {
        command_print_option(&command_common_options[i], to);
    }
    if (command->takes_settings) {
        fprintf(to, "\nEvery setting that 'solfleet config' lists is an option too, e.g. --brokers "
                    "HOST:PORT.\n");
    }
}

void command_print_list(FILE *to) {
    fprintf(to, "usage: solfleet COMMAND [OPTION...]\n\n"
                "Worked solutions of programming problems: jobs from Kafka, answers from an INT8\n"
                "engine, status in Redis.\n\ncommands:\n");
    for (size_t i = 0; command_at(i); i++) {
        fprintf(to, "  %-12s%s\n", command_at(i)->name, command_at(i)->summary);
    }
    fprintf(
        to,
        "\n'solfleet COMMAND --help' explains each. Exit codes: 0 ok; 1 a job ended failed,\n"
        "expired or cancelled; 2 usage or configuration; 3 unknown id; 4 broker or Redis\n"
        "unreachable; 5 wait timed out; 6 no usable device, or the model does not fit; 7 model\n"
        "file bad; 70 bug; 75 worker: jobs will be delivered again; 130 interrupted.\n");
}
