#include <stdlib.h>
#include <string.h>

#include "consumer/await.h"
#include "consumer/command.h"
#include "consumer/config.h"
#include "consumer/interrupt.h"
#include "consumer/job_file.h"
#include "consumer/kafka_producer.h"
#include "consumer/status_client.h"
#include "engine/clock.h"

struct command_submit_options {
    const char *id, *code_language, *language, *progress;
    int64_t max_tokens, seed, timeout_ms, priority, connect_timeout_ms;
    double temperature;
    bool wait, show, live;
};

#define AT(field) offsetof(struct command_submit_options, field)
static const struct config_option command_submit_table[] = {
    {"id", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(id), "request id of the one job"},
    {"max_tokens", CONFIG_INT, NULL, 1, JOB_MAX_TOKENS_MAX, NULL, 0, AT(max_tokens),
     "most tokens in the answer"},
    {"temperature", CONFIG_REAL, NULL, 0, 2, NULL, 0, AT(temperature),
     "0 takes the likeliest token each time"},
    {"seed", CONFIG_INT, NULL, 0, (double)JOB_SEED_MAX, NULL, 0, AT(seed),
     "equal seeds give equal answers"},
    {"language", CONFIG_CHOICE, NULL, 0, 0, "zh|en|auto", 0, AT(language),
     "language of the answer, for problems"},
    {"code_language", CONFIG_TEXT, NULL, 0, 0, NULL, 0, AT(code_language),
     "language of the code, for problems"},
    {"progress", CONFIG_CHOICE, NULL, 0, 0, "off|tokens|text", 0, AT(progress),
     "what the status tells while the job runs"},
    {"timeout_ms", CONFIG_INT, NULL, 1, (double)JOB_TIMEOUT_MS_MAX, NULL, 0, AT(timeout_ms),
     "the job's time-out"},
    {"priority", CONFIG_INT, NULL, 0, JOB_PRIORITY_MAX, NULL, 0, AT(priority), "0 is most urgent"},
    {"wait", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(wait), "wait until all have ended"},
    {"show", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(show), "wait, then print the answers"},
    {"live", CONFIG_BOOL, "false", 0, 0, NULL, 0, AT(live), "wait, showing progress"},
    {"connect_timeout_ms", CONFIG_INT, "5000", 1, 1e9, NULL, 0, AT(connect_timeout_ms),
     "how long the broker or Redis may be silent"},
};
#undef AT

static const char command_submit_help[] =
    "Sends jobs and prints their request ids, one a line. A file holds one job in JSON, a job a\n"
    "line (JSON Lines), or a problem in plain text or Markdown, whose first heading is its title.\n"
    "A job without a request_id gets one, made of the file's name. `-` is standard input. Every\n"
    "job is checked first: if one is wrong, none is sent. Options beat what the files say.\n"
    "\n"
    "  solfleet submit two-sum.md --language zh --wait --show\n"
    "  solfleet submit jobs.jsonl --priority 2\n"
    "  echo 'Reverse a linked list.' | solfleet submit - --id my-job-1\n"
    "\n"
    "Exit code: 0 sent (with --wait: all done); 1 one ended failed; 2 a job is wrong; 4 the\n"
    "broker or Redis is unreachable.";

struct command_submit {
    const struct config *config;
    const struct command_submit_options *options;
    struct interrupt interrupt;
    struct job_file file;
    const char **ids;                           /* of the entries */
    struct kafka_producer_delivery *deliveries; /* of the entries */
    bool *created;
};

/* ---- reading --------------------------------------------------------------------------------- */

static void command_submit_say(void *context, const char *text) {
    (void)context;
    fprintf(stderr, "solfleet submit: %s\n", text);
}

static struct job_file_wishes command_submit_wishes(const struct command_submit_options *options) {
    struct job_file_wishes wishes = job_file_no_wishes();
    wishes.id = options->id;
    wishes.code_language = options->code_language;
    wishes.max_tokens = options->max_tokens;
    wishes.seed = options->seed;
    wishes.timeout_ms = options->timeout_ms;
    wishes.priority = options->priority;
    wishes.temperature = options->temperature;
    if (options->language) {
        wishes.answer_language = strcmp(options->language, "zh") == 0   ? JOB_ANSWER_ZH
                                 : strcmp(options->language, "en") == 0 ? JOB_ANSWER_EN
                                                                        : JOB_ANSWER_AUTO;
    }
    if (options->progress) {
        wishes.progress = strcmp(options->progress, "text") == 0     ? JOB_PROGRESS_TEXT
                          : strcmp(options->progress, "tokens") == 0 ? JOB_PROGRESS_TOKENS
                                                                     : JOB_PROGRESS_OFF;
    }
    return wishes;
}

static int command_submit_read_file(struct command_submit *submit, const char *path) {
    struct job_file_wishes wishes = command_submit_wishes(submit->options);
    struct job_file_report report = {command_submit_say, NULL};
    char *text = NULL, err[512];
    size_t bytes = 0;
    if (!job_file_read(path, &text, &bytes, err, sizeof err)) {
        return command_fail("submit", COMMAND_EXIT_USAGE, "%s", err);
    }
    bool added = job_file_add(&submit->file, path, text, bytes, &wishes, &report);
    free(text);
    return added ? COMMAND_EXIT_OK : command_fail("submit", COMMAND_EXIT_BUG, "out of memory");
}

static int command_submit_read(struct command_submit *submit) {
    for (size_t i = 0; i < submit->config->argument_count; i++) {
        int code = command_submit_read_file(submit, submit->config->arguments[i]);
        if (code) {
            return code;
        }
    }
    struct job_file *file = &submit->file;
    if (submit->options->id && file->count > 1) {
        return command_fail("submit", COMMAND_EXIT_USAGE,
                            "--id names one job, but there are %zu: put a request_id into each",
                            file->count);
    }
    struct job_file_report report = {command_submit_say, NULL};
    if (!job_file_check_ids(file, &report)) {
        return command_fail("submit", COMMAND_EXIT_BUG, "out of memory");
    }
    if (file->complaint_count) {
        return command_fail("submit", COMMAND_EXIT_USAGE, "%zu job%s wrong; nothing was sent",
                            file->complaint_count, file->complaint_count == 1 ? " is" : "s are");
    }
    return file->count ? COMMAND_EXIT_OK
                       : command_fail("submit", COMMAND_EXIT_USAGE, "there is no job in the input");
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Says in Redis that the jobs are under way, so that a client that asks at once finds them. */
static int command_submit_queue(struct command_submit *submit) {
    const struct config *config = submit->config;
    struct status_client *client = NULL;
    char err[512];
    enum status_client_status status =
        status_client_open(config->redis, config->key_prefix, submit->options->connect_timeout_ms,
                           &client, err, sizeof err);
    if (status == STATUS_CLIENT_OK) {
        status = status_client_queue(client, submit->ids, submit->file.count, clock_unix_ms(NULL),
                                     config->status_ttl_s, submit->created, err, sizeof err);
    }
    status_client_close(client);
    if (status == STATUS_CLIENT_BAD_SETTING) {
        return command_fail("submit", COMMAND_EXIT_USAGE, "%s", err);
    }
    return status == STATUS_CLIENT_OK ? COMMAND_EXIT_OK : command_fail_redis("submit", err);
}

/* Takes deliveries until `wanted` are there; false when interrupted. */
static bool command_submit_collect(struct command_submit *submit, struct kafka_producer *producer,
                                   size_t *taken, size_t wanted) {
    while (*taken < wanted) {
        if (kafka_producer_take_delivery(producer, 100, NULL) == KAFKA_CLIENT_OK) {
            *taken += 1;
        } else if (interrupt_take(&submit->interrupt)) {
            return false;
        }
    }
    return true;
}

static int command_submit_send(struct command_submit *submit, struct kafka_producer *producer) {
    const struct job_file *file = &submit->file;
    size_t sent = 0, taken = 0;
    while (sent < file->count) {
        const struct job_file_entry *entry = &file->entries[sent];
        struct kafka_producer_delivery *delivery = &submit->deliveries[sent];
        enum kafka_client_status status = kafka_producer_send(
            producer, submit->config->jobs_topic, entry->request_id, entry->value,
            entry->value_bytes, delivery, delivery->error, sizeof delivery->error);
        if (status == KAFKA_CLIENT_NONE) { /* the queue is full: make room first */
            if (!command_submit_collect(submit, producer, &taken, taken + 1)) {
                return COMMAND_EXIT_INTERRUPTED;
            }
            continue;
        }
        if (status != KAFKA_CLIENT_OK) { /* this one cannot be sent at all */
            delivery->status = status;
            taken++;
        }
        sent++;
    }
    return command_submit_collect(submit, producer, &taken, sent) ? COMMAND_EXIT_OK
                                                                  : COMMAND_EXIT_INTERRUPTED;
}

/* Checks the broker before Redis is told, so that no status promises what never was sent. */
static int command_submit_deliver(struct command_submit *submit) {
    const struct config *config = submit->config;
    int64_t timeout_ms = submit->options->connect_timeout_ms;
    struct kafka_producer *producer = NULL;
    char err[512];
    enum kafka_client_status status =
        kafka_producer_open(config, timeout_ms, &producer, err, sizeof err);
    if (status != KAFKA_CLIENT_OK) {
        return command_fail("submit", COMMAND_EXIT_USAGE, "%s", err);
    }
    status = kafka_producer_check(producer, config->jobs_topic, timeout_ms, err, sizeof err);
    int code =
        status == KAFKA_CLIENT_OK ? COMMAND_EXIT_OK : command_fail_client("submit", status, err);
    code = code ? code : command_submit_queue(submit);
    code = code ? code : command_submit_send(submit, producer);
    kafka_producer_close(producer);
    return code;
}

/* ---- what became of them --------------------------------------------------------------------- */

static void command_submit_print(const struct command_submit *submit, size_t index) {
    const struct kafka_producer_delivery *delivery = &submit->deliveries[index];
    if (submit->config->json) {
        printf("{\"request_id\":\"%s\",\"topic\":\"%s\",\"partition\":%d,\"offset\":%lld}\n",
               submit->ids[index], submit->config->jobs_topic, delivery->partition,
               (long long)delivery->offset);
    } else {
        puts(submit->ids[index]);
    }
    if (!submit->created[index]) {
        fprintf(stderr,
                "solfleet submit: %s has a status already: an equal job is not computed again, "
                "another one is refused\n",
                submit->ids[index]);
    }
}

static int command_submit_report(const struct command_submit *submit) {
    int code = COMMAND_EXIT_OK;
    /* With --show or --live the ids are part of what follows. */
    bool quiet = (submit->options->show || submit->options->live) && !submit->config->json;
    for (size_t i = 0; i < submit->file.count; i++) {
        const struct kafka_producer_delivery *delivery = &submit->deliveries[i];
        if (delivery->status == KAFKA_CLIENT_OK) {
            if (!quiet) {
                command_submit_print(submit, i);
            }
            continue;
        }
        code = delivery->status == KAFKA_CLIENT_UNREACHABLE ? COMMAND_EXIT_UNREACHABLE
                                                            : COMMAND_EXIT_USAGE;
        command_fail("submit", (enum command_exit)code,
                     "%s was not accepted: %s; submit it again under the same id", submit->ids[i],
                     delivery->error);
    }
    fflush(stdout);
    return code;
}

static int command_submit_await(struct command_submit *submit) {
    const struct command_submit_options *options = submit->options;
    if (!options->wait && !options->show && !options->live) {
        return COMMAND_EXIT_OK;
    }
    struct await_options await = {
        .command = "submit",
        .ids = submit->ids,
        .count = submit->file.count,
        .print = options->show ? AWAIT_PRINT_TEXT : AWAIT_PRINT_LINE,
        .live = options->live,
        .grace_ms = 3000,
        .connect_timeout_ms = options->connect_timeout_ms,
        .interrupt = &submit->interrupt,
    };
    return await_jobs(submit->config, &await);
}

/* ---- entry ----------------------------------------------------------------------------------- */

static int command_submit_all(struct command_submit *submit) {
    size_t count = submit->file.count;
    submit->ids = calloc(count, sizeof *submit->ids);
    submit->deliveries = calloc(count, sizeof *submit->deliveries);
    submit->created = calloc(count, sizeof *submit->created);
    if (!submit->ids || !submit->deliveries || !submit->created) {
        return command_fail("submit", COMMAND_EXIT_BUG, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        submit->ids[i] = submit->file.entries[i].request_id;
        submit->deliveries[i].status = KAFKA_CLIENT_NONE;
    }
    int code = command_submit_deliver(submit);
    if (code == COMMAND_EXIT_INTERRUPTED) {
        return command_fail("submit", COMMAND_EXIT_INTERRUPTED,
                            "interrupted: some jobs may not have been sent; submit again under "
                            "the same ids");
    }
    code = code ? code : command_submit_report(submit);
    return code ? code : command_submit_await(submit);
}

static int command_submit_jobs(const struct config *config, void *own) {
    struct command_submit submit = {.config = config, .options = own};
    int code = command_submit_read(&submit);
    if (code == COMMAND_EXIT_OK) {
        if (interrupt_open(&submit.interrupt)) {
            code = command_submit_all(&submit);
            interrupt_close(&submit.interrupt);
        } else {
            code = command_fail("submit", COMMAND_EXIT_BUG, "no descriptor for signals");
        }
    }
    free(submit.ids);
    free(submit.deliveries);
    free(submit.created);
    job_file_deinit(&submit.file);
    return code;
}

static int command_submit_run(int argc, char **argv) {
    struct command_submit_options options = {
        .max_tokens = -1, .seed = -1, .timeout_ms = -1, .priority = -1, .temperature = -1};
    const struct config_spec spec = {
        .name = "submit",
        .command = CONFIG_SUBMIT,
        .usage = "FILE...|-",
        .summary = command_submit_help,
        .own = command_submit_table,
        .own_count = sizeof command_submit_table / sizeof command_submit_table[0],
        .own_values = &options,
        .arguments_min = 1,
        .arguments_max = 4096,
    };
    return command_run(&spec, argc, argv, command_submit_jobs);
}

const struct command command_submit_entry = {"submit", "send jobs: JSON, JSON Lines, or a text",
                                             command_submit_run};
