/* `solfleet batch`: a file of jobs in, a file of answers out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/batch_file.h"
#include "consumer/batch_journal.h"
#include "consumer/batch_progress.h"
#include "consumer/batch_run.h"
#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/kafka_producer.h"
#include "consumer/status_client.h"
#include "engine/clock.h"
#include "schemas/json_writer.h"

struct command_batch_options {
    const char *output, *errors;
    int64_t window, connect_timeout_ms;
};

#define AT(field) offsetof(struct command_batch_options, field)
static const struct config_option command_batch_table[] = {
    {"output", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(output),
     "file of results; FILE.results.jsonl if not given"},
    {"errors", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(errors),
     "file of lines that failed; FILE.errors.jsonl if not given"},
    {"window", CONFIG_INT, "256", 1, BATCH_RUN_WINDOW_MAX, NULL, 0, AT(window),
     "most jobs under way at a time"},
    {"connect_timeout_ms", CONFIG_INT, "30000", 1, 1e9, NULL, 0, AT(connect_timeout_ms),
     "how long the broker or Redis may be away"},
};
#undef AT

static const char command_batch_help[] =
    "Sends every line of a JSON Lines file as a job and writes the results in the order of the\n"
    "lines. A line is a job of ours, or one of the OpenAI Batch format (custom_id, method POST, url\n"
    "/v1/chat/completions, body); results are of the same kind. The body's model is not looked at:\n"
    "the fleet's model answers. All lines are checked first: if one is wrong, or an id stands\n"
    "twice, none is sent. Lines that fail go to the file of errors.\n"
    "\n"
    "After Ctrl-C, or when the broker or Redis was away, the same command goes on where it was:\n"
    "what has been answered is not sent again. What is known so far stands in OUTPUT.partial.\n"
    "\n"
    "  solfleet batch problems.jsonl\n"
    "  solfleet batch requests.jsonl --output answers.jsonl --window 64\n"
    "\n"
    "Exit code: 0 all done; 1 some failed; 2 a line is wrong; 4 the broker or Redis is\n"
    "unreachable; 130 interrupted.";

struct command_batch {
    const struct config *config;
    const struct command_batch_options *options;
    const char *input;
    char *output, *errors, *partial; /* owned */
    struct batch_file file;
    struct batch_journal journal;
    struct batch_progress progress;
    struct interrupt interrupt;
    struct kafka_producer *producer;
    struct status_client *client;
    int64_t started_ns;
};

/* ---- files ----------------------------------------------------------------------------------- */

static void command_batch_say(void *context, const char *text) {
    (void)context;
    fprintf(stderr, "solfleet batch: %s\n", text);
}

/* "jobs.results.jsonl" of "jobs.jsonl"; NULL when memory ran out. */
static char *command_batch_beside(const char *input, const char *what) {
    size_t size = strlen(input);
    size_t stem = size > 6 && strcmp(input + size - 6, ".jsonl") == 0 ? size - 6 : size;
    char *path = NULL;
    return asprintf(&path, "%.*s.%s.jsonl", (int)stem, input, what) < 0 ? NULL : path;
}

/* The path that was given, or the one beside the input. */
static char *command_batch_path(const char *given, const char *input, const char *what) {
    return given ? strdup(given) : command_batch_beside(input, what);
}

static char *command_batch_partial(const char *output) {
    char *path = NULL;
    return output && asprintf(&path, "%s.partial", output) < 0 ? NULL : path;
}

/* Nobody's file is overwritten: an earlier run's answers may be dear. */
static int command_batch_check_files(const struct command_batch *batch) {
    const char *const paths[] = {batch->output, batch->errors};
    if (strcmp(batch->output, batch->errors) == 0) {
        return command_fail("batch", COMMAND_EXIT_USAGE, "--output and --errors name one file");
    }
    for (size_t i = 0; i < 2 && access(batch->partial, F_OK) != 0; i++) {
        if (access(paths[i], F_OK) == 0) {
            return command_fail("batch", COMMAND_EXIT_USAGE,
                                "%s exists: move it away, or name another file with %s", paths[i],
                                i == 0 ? "--output" : "--errors");
        }
    }
    return COMMAND_EXIT_OK;
}

static int command_batch_read(struct command_batch *batch) {
    struct batch_file_report report = {command_batch_say, NULL};
    struct batch_file *file = &batch->file;
    char err[512];
    if (!batch_file_open(file, batch->input, &report, err, sizeof err)) {
        return command_fail("batch", COMMAND_EXIT_USAGE, "%s", err);
    }
    if (file->complaint_count) {
        return command_fail("batch", COMMAND_EXIT_USAGE, "%zu line%s wrong; nothing was sent",
                            file->complaint_count, file->complaint_count == 1 ? " is" : "s are");
    }
    return file->count ? COMMAND_EXIT_OK
                       : command_fail("batch", COMMAND_EXIT_USAGE, "%s: there is no line in it",
                                      batch->input);
}

static int command_batch_resume(struct command_batch *batch) {
    struct batch_journal *journal = &batch->journal;
    bool resumed;
    char err[512];
    if (!batch_journal_open(journal, batch->partial, batch->file.sha256, batch->file.count,
                            &resumed, err, sizeof err)) {
        return command_fail("batch", COMMAND_EXIT_USAGE, "%s", err);
    }
    if (resumed) {
        fprintf(stderr, "solfleet batch: going on with %s: %zu of %zu lines have ended\n",
                batch->partial, journal->done_count + journal->failed_count, batch->file.count);
    }
    return COMMAND_EXIT_OK;
}

/* How long one call may take: whoever presses Ctrl-C wants to see something happen. */
static int64_t command_batch_patience_ms(const struct command_batch *batch) {
    int64_t timeout_ms = batch->options->connect_timeout_ms;
    return timeout_ms < 5000 ? timeout_ms : 5000;
}

/* ---- services -------------------------------------------------------------------------------- */

static int command_batch_open_kafka(struct command_batch *batch) {
    const struct config *config = batch->config;
    int64_t timeout_ms = batch->options->connect_timeout_ms;
    char err[512];
    enum kafka_client_status status =
        kafka_producer_open(config, timeout_ms, &batch->producer, err, sizeof err);
    if (status == KAFKA_CLIENT_OK) {
        status = kafka_producer_check(batch->producer, config->jobs_topic,
                                      command_batch_patience_ms(batch), err, sizeof err);
    }
    return status == KAFKA_CLIENT_OK ? COMMAND_EXIT_OK : command_fail_client("batch", status, err);
}

static int command_batch_open_redis(struct command_batch *batch) {
    const struct config *config = batch->config;
    int64_t timeout_ms = command_batch_patience_ms(batch);
    char err[512];
    switch (status_client_open(config->redis, config->key_prefix, timeout_ms, &batch->client, err,
                               sizeof err)) {
    case STATUS_CLIENT_OK: return COMMAND_EXIT_OK;
    case STATUS_CLIENT_BAD_SETTING: return command_fail("batch", COMMAND_EXIT_USAGE, "%s", err);
    case STATUS_CLIENT_REFUSED: return command_fail("batch", COMMAND_EXIT_UNREACHABLE, "%s", err);
    default: return command_fail_redis("batch", err);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void command_batch_print_json(const struct command_batch *batch, double seconds) {
    const struct batch_journal *journal = &batch->journal;
    struct json_writer writer;
    json_writer_init(&writer, 256);
    json_writer_begin_object(&writer);
    json_writer_key(&writer, "jobs");
    json_writer_uint(&writer, journal->count);
    json_writer_key(&writer, "done");
    json_writer_uint(&writer, journal->done_count);
    json_writer_key(&writer, "failed");
    json_writer_uint(&writer, journal->failed_count);
    json_writer_key(&writer, "seconds");
    json_writer_double(&writer, seconds);
    json_writer_key(&writer, "output");
    json_writer_string(&writer, batch->output);
    json_writer_key(&writer, "errors");
    json_writer_string(&writer, journal->failed_count ? batch->errors : NULL);
    json_writer_end_object(&writer);
    char *text = json_writer_finish(&writer, NULL);
    puts(text ? text : "");
    free(text);
}

static void command_batch_print(const struct command_batch *batch) {
    const struct batch_journal *journal = &batch->journal;
    double seconds =
        (double)(clock_monotonic_ns(NULL) - batch->started_ns) / (double)CLOCK_NS_PER_S;
    if (batch->config->json) {
        command_batch_print_json(batch, seconds);
        return;
    }
    printf("%zu done in %.1f s: %s\n", journal->done_count, seconds, batch->output);
    if (journal->failed_count) {
        printf("%zu failed: %s\n", journal->failed_count, batch->errors);
    }
}

static int command_batch_finish(struct command_batch *batch, enum batch_run_status status,
                                const char *said) {
    char err[512];
    size_t failed_count = batch->journal.failed_count;
    switch (status) {
    case BATCH_RUN_OK: break;
    case BATCH_RUN_INTERRUPTED:
        return command_fail("batch", COMMAND_EXIT_INTERRUPTED,
                            "interrupted at %zu of %zu; the same command goes on from here",
                            batch->journal.done_count + failed_count, batch->file.count);
    case BATCH_RUN_UNREACHABLE:
        return command_fail("batch", COMMAND_EXIT_UNREACHABLE,
                            "%s; when it is back, the same command goes on from here", said);
    case BATCH_RUN_FAILED:
        return command_fail("batch", COMMAND_EXIT_USAGE,
                            "%s; once that is put right, the same command goes on from here", said);
    }
    if (!batch_journal_publish(&batch->journal, batch->output, batch->errors, err, sizeof err)) {
        return command_fail("batch", COMMAND_EXIT_USAGE,
                            "%s; once that is put right, the same command writes the files", err);
    }
    command_batch_print(batch);
    return failed_count ? COMMAND_EXIT_JOB_NOT_DONE : COMMAND_EXIT_OK;
}

static int command_batch_work(struct command_batch *batch) {
    int code = command_batch_check_files(batch);
    code = code ? code : command_batch_read(batch);
    code = code ? code : command_batch_open_kafka(batch);
    code = code ? code : command_batch_open_redis(batch);
    code = code ? code : command_batch_resume(batch);
    if (code) {
        kafka_producer_close(batch->producer);
        return code;
    }
    size_t ended = batch->journal.done_count + batch->journal.failed_count;
    batch_progress_init(&batch->progress, stderr, batch->file.count, ended);
    struct batch_run_options run = {.config = batch->config,
                                    .file = &batch->file,
                                    .journal = &batch->journal,
                                    .progress = &batch->progress,
                                    .producer = batch->producer,
                                    .client = batch->client,
                                    .interrupt = &batch->interrupt,
                                    .window = (size_t)batch->options->window,
                                    .timeout_ms = batch->options->connect_timeout_ms};
    char err[512] = "";
    enum batch_run_status status = batch_run(&run, err, sizeof err);
    batch_progress_clear(&batch->progress);
    return command_batch_finish(batch, status, err);
}

/* ---- entry ----------------------------------------------------------------------------------- */

static int command_batch_file(const struct config *config, void *own) {
    struct command_batch batch = {.config = config,
                                  .options = own,
                                  .input = config->arguments[0],
                                  .file = {.fd = -1},
                                  .journal = {.fd = -1},
                                  .started_ns = clock_monotonic_ns(NULL)};
    int code;
    batch.output = command_batch_path(batch.options->output, batch.input, "results");
    batch.errors = command_batch_path(batch.options->errors, batch.input, "errors");
    batch.partial = command_batch_partial(batch.output);
    if (!batch.output || !batch.errors || !batch.partial) {
        code = command_fail("batch", COMMAND_EXIT_BUG, "out of memory");
    } else if (!interrupt_open(&batch.interrupt)) {
        code = command_fail("batch", COMMAND_EXIT_BUG, "no descriptor for signals");
    } else {
        code = command_batch_work(&batch);
        interrupt_close(&batch.interrupt);
    }
    status_client_close(batch.client);
    batch_journal_close(&batch.journal);
    batch_file_close(&batch.file);
    free(batch.output);
    free(batch.errors);
    free(batch.partial);
    return code;
}

static int command_batch_run(int argc, char **argv) {
    struct command_batch_options options = {0};
    const struct config_spec spec = {
        .name = "batch",
        .command = CONFIG_BATCH,
        .usage = "FILE.jsonl",
        .summary = command_batch_help,
        .own = command_batch_table,
        .own_count = sizeof command_batch_table / sizeof command_batch_table[0],
        .own_values = &options,
        .arguments_min = 1,
        .arguments_max = 1,
    };
    return command_run(&spec, argc, argv, command_batch_file);
}

const struct command command_batch_entry = {"batch", "answer a file of jobs or of OpenAI requests",
                                            command_batch_run};
