/* A configuration from anywhere. First byte: which command. Then strings, each up to a zero byte:
 * the text of the JSON file (empty: there is none), then up to WORDS_MAX words, of which one that
 * begins with `$` is a variable of the environment (its SOLFLEET_ left out), any other a word of
 * the command line. Whatever they say, either every option is in its range or err says what is
 * wrong. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "consumer/config.h"
#include "consumer/config_env_file.h"
#include "consumer/config_table.h"
#include "tests/fuzz/fuzz.h"

enum {
    WORDS_MAX = 24,
    COMMANDS = 13,
};

struct own_values {
    const char *text;
    double real;
    bool flag;
};

static const struct config_option own_options[] = {
    {"prompt", CONFIG_TEXT, "hi", 0, 0, NULL, 0, offsetof(struct own_values, text), "text"},
    {"rate", CONFIG_REAL, "1.5", 0, 10, NULL, 0, offsetof(struct own_values, real), "rate"},
    {"loud", CONFIG_BOOL, "false", 0, 0, NULL, 0, offsetof(struct own_values, flag), "loud"},
};

struct words {
    char *argv[WORDS_MAX + 4];
    int argc;
    char *environment[WORDS_MAX + 1];
    size_t variable_count;
};

static char *take(const char **data, size_t *bytes) {
    char *text = strndup(*data, *bytes);
    size_t used = strlen(text) + 1 < *bytes ? strlen(text) + 1 : *bytes;
    *data += used;
    *bytes -= used;
    return text;
}

static void add_word(struct words *words, char *text) {
    if (text[0] != '$') {
        words->argv[words->argc++] = text;
        return;
    }
    size_t size = strlen(text) + sizeof "SOLFLEET_";
    char *variable = malloc(size);
    snprintf(variable, size, "SOLFLEET_%s", text + 1);
    words->environment[words->variable_count++] = variable;
    free(text);
}

/* The file is one in memory; gives its descriptor, to be closed. */
static int add_file(struct words *words, const char *text) {
    char path[64];
    int descriptor = memfd_create("config", 0);
    assert(descriptor >= 0);
    size_t bytes = strlen(text);
    assert(write(descriptor, text, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    words->argv[words->argc++] = strdup("--config");
    words->argv[words->argc++] = strdup(path);
    return descriptor;
}

static void check_option(const struct config_option *option, const void *values) {
    const void *field = (const char *)values + option->offset;
    double real;
    int64_t integer;
    const char *text;
    switch (option->type) {
    case CONFIG_BOOL: break;
    case CONFIG_INT:
        memcpy(&integer, field, sizeof integer);
        assert((double)integer >= option->min && (double)integer <= option->max);
        break;
    case CONFIG_REAL:
        memcpy(&real, field, sizeof real);
        assert(real >= option->min && real <= option->max);
        break;
    case CONFIG_CHOICE:
        memcpy(&text, field, sizeof text);
        assert(text[0] != '\0' && strstr(option->choices, text) != NULL);
        break;
    case CONFIG_TEXT:
    case CONFIG_LIST:
        memcpy(&text, field, sizeof text);
        assert(text != NULL || option->fallback == NULL);
        break;
    }
}

static void check(const struct config *config, const struct own_values *own) {
    for (size_t i = 0; i < config_table_option_count; i++) {
        check_option(&config_table_options[i], config);
    }
    for (size_t i = 0; i < sizeof own_options / sizeof own_options[0]; i++) {
        check_option(&own_options[i], own);
    }
    assert(config->kafka_count <= CONFIG_PASS_MAX && config->argument_count <= 2);
    for (size_t i = 0; i < config->kafka_count; i++) {
        assert(config->kafka[i].name[0] != '\0' && config->kafka[i].value != NULL);
    }
}

static void read_words(struct words *words, unsigned command) {
    struct own_values own = {0};
    struct config config;
    struct config_spec spec = {.name = config_table_command_name(1u << command),
                               .command = (enum config_command)(1u << command),
                               .usage = "",
                               .summary = "Reads.",
                               .own = own_options,
                               .own_count = sizeof own_options / sizeof own_options[0],
                               .own_values = &own,
                               .arguments_max = 2};
    char err[160] = "";
    enum config_status status =
        config_read(&config, &spec, words->argc, words->argv, words->environment, err, sizeof err);
    assert((status == CONFIG_WRONG) == (err[0] != '\0') && strlen(err) < sizeof err);
    if (status == CONFIG_OK) {
        check(&config, &own);
    }
    config_deinit(&config);
}

static bool check_variable(void *context, size_t line, const char *key, const char *value) {
    (void)context;
    assert(line > 0 && key[0] != '\0' && strlen(value) < CONFIG_FILE_BYTES_MAX * 64u);
    return true;
}

/* The text as a file of variables, too. */
static void read_env_file(const char *text) {
    char *copy = strdup(text), err[160] = "";
    bool right = config_env_file_parse("f", copy, check_variable, NULL, err, sizeof err);
    assert(right == (err[0] == '\0'));
    free(copy);
}

static void free_words(struct words *words) {
    for (int i = 0; i < words->argc; i++) {
        free(words->argv[i]);
    }
    for (size_t i = 0; i < words->variable_count; i++) {
        free(words->environment[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    static FILE *silence;
    if (silence == NULL) {
        silence = freopen("/dev/null", "w", stdout); /* --help */
    }
    if (data_bytes == 0) {
        return 0;
    }
    struct words words = {.argc = 0};
    const char *rest = (const char *)data + 1;
    size_t bytes = data_bytes - 1;
    int descriptor = -1;
    char *file = take(&rest, &bytes);
    read_env_file(file);
    words.argv[words.argc++] = strdup("solfleet");
    if (file[0] != '\0') {
        descriptor = add_file(&words, file);
    }
    for (int i = 0; i < WORDS_MAX && bytes > 0; i++) {
        add_word(&words, take(&rest, &bytes));
    }
    read_words(&words, data[0] % COMMANDS);
    free_words(&words);
    free(file);
    if (descriptor >= 0) {
        close(descriptor);
    }
    return 0;
}
