#include <stdlib.h>
#include <string.h>

#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/kafka_reader.h"
#include "consumer/terminal.h"
#include "schemas/result.h"

struct command_results_options {
    bool follow, from_beginning, show;
    int64_t limit, connect_timeout_ms;
};

#define COMMAND_RESULTS_NEWEST 20 /* shown when nothing else is asked for */

#define AT(field) offsetof(struct command_results_options, field)
static const struct config_option command_results_table[] = {
    {"follow", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(follow),
     "go on with what comes from now on"},
    {"from_beginning", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(from_beginning),
     "all that the topic still holds"},
    {"limit", CONFIG_INT, "0", 0, 1e9, NULL, 0, AT(limit),
     "most results that are printed; 0: none"},
    {"show", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(show), "print the text of each answer, too"},
    {"connect_timeout_ms", CONFIG_INT, "5000", 1, 1e9, NULL, 0, AT(connect_timeout_ms),
     "how long the broker may be away"},
};
#undef AT

static const char command_results_help[] =
    "Prints results from the results topic: one line each, or with --json the record as it is.\n"
    "Without options the newest 20 (or --limit) are printed, oldest first; --from-beginning\n"
    "prints all, --follow waits for new ones. Belongs to no consumer group.\n"
    "\n"
    "  solfleet results --limit 5\n"
    "  solfleet results --follow --json | jq .usage\n"
    "  solfleet results --from-beginning --show --limit 3";

struct command_results {
    const struct config *config;
    const struct command_results_options *options;
    struct kafka_reader *reader;
    struct interrupt *interrupt;
};

/* A record kept until all have been seen: partitions come one after the other, not by time. */
struct command_results_kept {
    int64_t timestamp_unix_ms;
    size_t order;
    size_t bytes;
    char *value;
};

/* ---- printing -------------------------------------------------------------------------------- */

static void command_results_print(const struct command_results *results, const char *value,
                                  size_t bytes) {
    if (results->config->json) {
        fwrite(value, 1, bytes, stdout);
        putchar('\n');
        fflush(stdout);
        return;
    }
    struct result result;
    struct job_error error;
    if (result_decode(value, bytes, &result, &error) != ERROR_NONE) {
        fprintf(stderr, "solfleet results: a record is no result: %s\n", error.message);
        return;
    }
    printf("%-40s %-9s %5u tokens", result.request_id, result_status_name(result.status),
           result.usage.completion_tokens);
    if (result.timings.total_ms >= 0) {
        printf(" %8.1f s", (double)result.timings.total_ms / 1000.0);
    }
    if (result.error.code != ERROR_NONE) {
        printf("  %s: ", error_code_name(result.error.code));
        terminal_print(stdout, result.error.message, strlen(result.error.message));
    }
    putchar('\n');
    if (results->options->show && result.text) {
        terminal_print(stdout, result.text, strlen(result.text));
        fputs("\n\n", stdout);
    }
    fflush(stdout);
    result_deinit(&result);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads one record. OK, END, or the command's exit code through *code. */
static enum kafka_client_status command_results_next(const struct command_results *results,
                                                     struct kafka_reader_record *record,
                                                     int *code) {
    char err[512];
    for (;;) {
        enum kafka_client_status status = kafka_reader_read(
            results->reader, 200, results->options->follow, record, err, sizeof err);
        if (status == KAFKA_CLIENT_OK || status == KAFKA_CLIENT_END) {
            return status;
        }
        if (status != KAFKA_CLIENT_NONE) {
            *code = command_fail_client("results", status, err);
            return status;
        }
        if (interrupt_take(results->interrupt)) {
            *code = COMMAND_EXIT_INTERRUPTED;
            return KAFKA_CLIENT_REFUSED;
        }
    }
}

static int command_results_stream(const struct command_results *results) {
    struct kafka_reader_record record;
    int64_t limit = results->options->limit;
    int code = COMMAND_EXIT_OK;
    for (int64_t printed = 0; limit == 0 || printed < limit; printed++) {
        if (command_results_next(results, &record, &code) != KAFKA_CLIENT_OK) {
            break;
        }
        command_results_print(results, record.value, record.value_bytes);
    }
    return code;
}

static int command_results_compare(const void *a, const void *b) {
    const struct command_results_kept *left = a, *right = b;
    if (left->timestamp_unix_ms != right->timestamp_unix_ms) {
        return left->timestamp_unix_ms < right->timestamp_unix_ms ? -1 : 1;
    }
    return (left->order > right->order) - (left->order < right->order);
}

/* Adds a copy of a record; false when memory ran out. */
static bool command_results_keep(struct command_results_kept **kept, size_t *count,
                                 const struct kafka_reader_record *record) {
    if ((*count & (*count - 1)) == 0) { /* grow at every power of two */
        size_t capacity = *count ? *count * 2 : 1;
        struct command_results_kept *larger = realloc(*kept, capacity * sizeof **kept);
        if (!larger) {
            return false;
        }
        *kept = larger;
    }
    char *copy = malloc(record->value_bytes + 1);
    if (!copy) {
        return false;
    }
    if (record->value_bytes) {
        memcpy(copy, record->value, record->value_bytes);
    }
    (*kept)[*count] =
        (struct command_results_kept){record->timestamp_unix_ms, *count, record->value_bytes, copy};
    *count += 1;
    return true;
}

static int command_results_newest(const struct command_results *results, int64_t limit) {
    struct command_results_kept *kept = NULL;
    size_t count = 0;
    struct kafka_reader_record record;
    int code = COMMAND_EXIT_OK;
    while (command_results_next(results, &record, &code) == KAFKA_CLIENT_OK) {
        if (!command_results_keep(&kept, &count, &record)) {
            code = command_fail("results", COMMAND_EXIT_BUG, "out of memory");
            break;
        }
    }
    if (count) {
        qsort(kept, count, sizeof *kept, command_results_compare);
    }
    size_t first = count > (size_t)limit ? count - (size_t)limit : 0;
    for (size_t i = 0; i < count; i++) {
        if (code == COMMAND_EXIT_OK && i >= first) {
            command_results_print(results, kept[i].value, kept[i].bytes);
        }
        free(kept[i].value);
    }
    free(kept);
    return code;
}

static int command_results_read(const struct config *config, void *own,
                                struct interrupt *interrupt) {
    const struct command_results_options *options = own;
    struct command_results results = {config, options, NULL, interrupt};
    int64_t newest = options->limit ? options->limit : COMMAND_RESULTS_NEWEST;
    enum kafka_reader_start start = options->from_beginning ? KAFKA_READER_BEGINNING
                                    : options->follow       ? KAFKA_READER_LATEST
                                                            : KAFKA_READER_NEWEST;
    char err[512];
    enum kafka_client_status status =
        kafka_reader_open(config, config->results_topic, start, newest, options->connect_timeout_ms,
                          &results.reader, err, sizeof err);
    if (status != KAFKA_CLIENT_OK) {
        return command_fail_client("results", status, err);
    }
    int code = start == KAFKA_READER_NEWEST ? command_results_newest(&results, newest)
                                            : command_results_stream(&results);
    kafka_reader_close(results.reader);
    return code;
}

static int command_results_run(int argc, char **argv) {
    struct command_results_options options = {0};
    const struct config_spec spec = {
        .name = "results",
        .command = CONFIG_RESULTS,
        .usage = "",
        .summary = command_results_help,
        .own = command_results_table,
        .own_count = sizeof command_results_table / sizeof command_results_table[0],
        .own_values = &options,
    };
    return command_run_interruptible(&spec, argc, argv, command_results_read);
}

const struct command command_results_entry = {"results", "print results from the results topic",
                                              command_results_run};
