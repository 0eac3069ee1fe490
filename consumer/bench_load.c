#include "consumer/bench_load.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "consumer/bench_prompt.h"
#include "consumer/config.h"
#include "consumer/kafka_producer.h"
#include "consumer/kafka_reader.h"
#include "engine/clock.h"

#define BENCH_LOAD_CONNECT_MS 15000
#define BENCH_LOAD_DELIVERY_MS 60000
#define BENCH_LOAD_LEAD_MS 20 /* from the start of a run to its first job */
#define BENCH_LOAD_RETRY_MS 100
#define BENCH_LOAD_READ_MS 20
#define BENCH_LOAD_RUN_BYTES 48

/* The first result of a job, kept as it came: it is decoded when all have come, so that the load
 * takes little from those that work on it. */
struct bench_load_answer {
    char *value; /* owned */
    size_t value_bytes;
};

struct bench_load {
    const struct config *config; /* borrowed */
    struct kafka_producer *producer;
    struct kafka_reader *reader;
    uint32_t run_count;

    /* Of the run under way. */
    char run[BENCH_LOAD_RUN_BYTES]; /* what its ids begin with */
    struct bench_load_job *jobs;
    char **values;                              /* owned [count] */
    struct bench_load_answer *answers;          /* owned [count]; until the next run */
    struct kafka_producer_delivery *deliveries; /* owned [count] */
    size_t count, extra_results;
    int64_t start_ns;
    _Atomic bool is_stopping; /* the sender shall end */
    _Atomic bool has_failed;  /* the sender has ended early, after send_err */
    char send_err[256];
};

/* ---- making ---------------------------------------------------------------------------------- */

static char *bench_load_make_value(const struct bench_load *load,
                                   const struct bench_load_options *options, uint64_t seed,
                                   size_t index) {
    struct job job;
    job_init(&job);
    snprintf(job.request_id, sizeof job.request_id, "%s%zu", load->run, index);
    job.kind = JOB_PROMPT;
    job.prompt = bench_prompt_make(load->jobs[index].arrival.prompt_tokens, seed + index);
    job.params.max_tokens = load->jobs[index].arrival.max_tokens;
    if (options->temperature >= 0) {
        job.params.temperature = (float)options->temperature;
    }
    char *value = job.prompt ? job_encode(&job) : NULL;
    job_deinit(&job);
    return value;
}

static void bench_load_free_values(struct bench_load *load) {
    for (size_t i = 0; i < load->count && load->values; i++) {
        free(load->values[i]);
    }
    free(load->values);
    free(load->deliveries);
    load->values = NULL;
    load->deliveries = NULL;
}

static void bench_load_free_answers(struct bench_load *load) {
    for (size_t i = 0; i < load->count && load->answers; i++) {
        free(load->answers[i].value);
    }
    free(load->answers);
    load->answers = NULL;
}

static bool bench_load_make_values(struct bench_load *load,
                                   const struct bench_load_options *options, uint64_t seed) {
    load->deliveries = calloc(load->count, sizeof *load->deliveries);
    load->answers = calloc(load->count, sizeof *load->answers);
    load->values =
        load->deliveries && load->answers ? calloc(load->count, sizeof *load->values) : NULL;
    for (size_t i = 0; i < load->count && load->values; i++) {
        load->values[i] = bench_load_make_value(load, options, seed, i);
        if (!load->values[i]) {
            bench_load_free_values(load);
        }
    }
    if (!load->values) {
        bench_load_free_values(load);
    }
    return load->values != NULL;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Takes what is known about deliveries; false when one failed. */
static bool bench_load_take_deliveries(struct bench_load *load, int wait_ms, size_t *delivered) {
    struct kafka_producer_delivery *delivery;
    while (kafka_producer_take_delivery(load->producer, wait_ms, &delivery) == KAFKA_CLIENT_OK) {
        (*delivered)++;
        wait_ms = 0;
        if (delivery->status != KAFKA_CLIENT_OK) {
            snprintf(load->send_err, sizeof load->send_err, "a job was not delivered: %s",
                     delivery->error);
            return false;
        }
    }
    return true;
}

static void bench_load_sleep_until(const struct bench_load *load, int64_t due_ns) {
    while (!load->is_stopping && clock_monotonic_ns(NULL) < due_ns) {
        int64_t slice_ns = clock_monotonic_ns(NULL) + 100 * CLOCK_NS_PER_MS; /* to see a stop */
        int64_t until_ns = due_ns < slice_ns ? due_ns : slice_ns;
        struct timespec until = {.tv_sec = until_ns / CLOCK_NS_PER_S,
                                 .tv_nsec = until_ns % CLOCK_NS_PER_S};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

static bool bench_load_send(struct bench_load *load, size_t index, size_t *delivered) {
    char id[BENCH_LOAD_RUN_BYTES + 24];
    const char *value = load->values[index];
    enum kafka_client_status status = KAFKA_CLIENT_NONE;
    snprintf(id, sizeof id, "%s%zu", load->run, index);
    while (status == KAFKA_CLIENT_NONE && !load->is_stopping) {
        status =
            kafka_producer_send(load->producer, load->config->jobs_topic, id, value, strlen(value),
                                &load->deliveries[index], load->send_err, sizeof load->send_err);
        if (status == KAFKA_CLIENT_NONE && !bench_load_take_deliveries(load, 10, delivered)) {
            return false;
        }
    }
    load->jobs[index].sent_ns = clock_monotonic_ns(NULL) - load->start_ns;
    return status == KAFKA_CLIENT_OK || load->is_stopping;
}

static void *bench_load_send_all(void *context) {
    struct bench_load *load = context;
    size_t sent = 0, delivered = 0;
    bool is_well = true;
    while (sent < load->count && is_well && !load->is_stopping) {
        bench_load_sleep_until(load, load->start_ns + load->jobs[sent].arrival.offset_ns);
        is_well = bench_load_send(load, sent, &delivered);
        sent++;
        if (is_well && sent % 256 == 0) {
            is_well = bench_load_take_deliveries(load, 0, &delivered);
        }
    }
    while (delivered < sent && is_well && !load->is_stopping) {
        is_well = bench_load_take_deliveries(load, 100, &delivered);
    }
    if (!is_well) {
        load->has_failed = true;
    }
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The job that a record answers; count when it answers none of this run. */
static size_t bench_load_find(const struct bench_load *load,
                              const struct kafka_reader_record *record) {
    size_t prefix = strlen(load->run);
    char digits[24] = "";
    if (record->key_bytes <= prefix || record->key_bytes - prefix >= sizeof digits ||
        memcmp(record->key, load->run, prefix) != 0) {
        return load->count;
    }
    memcpy(digits, record->key + prefix, record->key_bytes - prefix);
    size_t index = strtoull(digits, NULL, 10);
    return index < load->count ? index : load->count;
}

/* True when it is a job's first result. */
static bool bench_load_note(struct bench_load *load, const struct kafka_reader_record *record,
                            int64_t now_ns) {
    size_t index = bench_load_find(load, record);
    if (index < load->count && load->jobs[index].answered_ns != 0) {
        load->extra_results++;
        return false;
    }
    if (index == load->count) {
        return false;
    }
    char *value = malloc(record->value_bytes + 1);
    if (!value) {
        return false;
    }
    memcpy(value, record->value, record->value_bytes);
    load->answers[index] =
        (struct bench_load_answer){.value = value, .value_bytes = record->value_bytes};
    load->jobs[index].answered_ns = now_ns - load->start_ns;
    return true;
}

/* Says of each job what its result says. A job whose result cannot be read has none. */
static enum bench_load_status bench_load_decode_all(struct bench_load *load, char *err,
                                                    size_t err_bytes) {
    size_t unreadable = 0;
    for (size_t i = 0; i < load->count; i++) {
        struct bench_load_job *job = &load->jobs[i];
        const struct bench_load_answer *answer = &load->answers[i];
        struct result result;
        struct job_error error;
        if (!answer->value) {
            continue;
        }
        if (result_decode(answer->value, answer->value_bytes, &result, &error) != ERROR_NONE) {
            job->answered_ns = 0;
            unreadable++;
            snprintf(err, err_bytes, "%zu results cannot be read: %s", unreadable, error.message);
            continue;
        }
        job->status = result.status;
        job->prompt_tokens = result.usage.prompt_tokens;
        job->completion_tokens = result.usage.completion_tokens;
        result_deinit(&result);
    }
    return unreadable == 0 ? BENCH_LOAD_OK : BENCH_LOAD_TIMED_OUT;
}

/* Whether to go on without all results. */
static enum bench_load_status bench_load_check(const struct bench_load *load,
                                               const struct bench_load_options *options,
                                               size_t answered, int64_t quiet_ns, char *err,
                                               size_t err_bytes) {
    if (load->has_failed) {
        snprintf(err, err_bytes, "%s", load->send_err);
        return BENCH_LOAD_UNREACHABLE;
    }
    if (options->is_over && options->is_over(options->context)) {
        return BENCH_LOAD_OVER;
    }
    if (quiet_ns > options->timeout_ms * CLOCK_NS_PER_MS) {
        snprintf(err, err_bytes, "%zu of %zu jobs have no result, and none has come for %.1f s",
                 load->count - answered, load->count, (double)options->timeout_ms / 1000);
        return BENCH_LOAD_TIMED_OUT;
    }
    return BENCH_LOAD_OK;
}

static enum bench_load_status bench_load_read_all(struct bench_load *load,
                                                  const struct bench_load_options *options,
                                                  char *err, size_t err_bytes) {
    int64_t last_ns = load->start_ns + load->jobs[load->count - 1].arrival.offset_ns;
    int64_t checked_ns = 0;
    for (size_t answered = 0; answered < load->count;) {
        struct kafka_reader_record record;
        enum kafka_client_status read =
            kafka_reader_read(load->reader, BENCH_LOAD_READ_MS, true, &record, err, err_bytes);
        int64_t now_ns = clock_monotonic_ns(NULL);
        if (read != KAFKA_CLIENT_OK && read != KAFKA_CLIENT_NONE) {
            return BENCH_LOAD_UNREACHABLE;
        }
        if (read == KAFKA_CLIENT_OK && bench_load_note(load, &record, now_ns)) {
            answered++;
            last_ns = now_ns > last_ns ? now_ns : last_ns;
        }
        if (now_ns - checked_ns > BENCH_LOAD_READ_MS * CLOCK_NS_PER_MS) {
            enum bench_load_status status =
                bench_load_check(load, options, answered, now_ns - last_ns, err, err_bytes);
            if (status != BENCH_LOAD_OK) {
                return status;
            }
            checked_ns = now_ns;
        }
    }
    return BENCH_LOAD_OK;
}

/* ---- open, run, close ------------------------------------------------------------------------ */

/* A topic that was just made has no leader for a moment: asked again until the time is over. */
static bool bench_load_connect(struct bench_load *load, char *err, size_t err_bytes) {
    const struct config *config = load->config;
    int64_t deadline_ns = clock_monotonic_ns(NULL) + BENCH_LOAD_CONNECT_MS * CLOCK_NS_PER_MS;
    enum kafka_client_status status;
    do {
        status = kafka_reader_open(config, config->results_topic, KAFKA_READER_LATEST, 0,
                                   BENCH_LOAD_CONNECT_MS, &load->reader, err, err_bytes);
    } while (status == KAFKA_CLIENT_UNREACHABLE && clock_monotonic_ns(NULL) < deadline_ns &&
             poll(NULL, 0, BENCH_LOAD_RETRY_MS) == 0);
    return status == KAFKA_CLIENT_OK &&
           kafka_producer_open(config, BENCH_LOAD_DELIVERY_MS, &load->producer, err, err_bytes) ==
               KAFKA_CLIENT_OK &&
           kafka_producer_check(load->producer, config->jobs_topic, BENCH_LOAD_CONNECT_MS, err,
                                err_bytes) == KAFKA_CLIENT_OK;
}

enum bench_load_status bench_load_open(const struct config *config, struct bench_load **out,
                                       char *err, size_t err_bytes) {
    struct bench_load *load = calloc(1, sizeof *load);
    *out = NULL;
    if (!load) {
        snprintf(err, err_bytes, "out of memory");
        return BENCH_LOAD_NO_MEMORY;
    }
    load->config = config;
    if (!bench_load_connect(load, err, err_bytes)) {
        bench_load_close(load);
        return BENCH_LOAD_UNREACHABLE;
    }
    *out = load;
    return BENCH_LOAD_OK;
}

enum bench_load_status bench_load_run(struct bench_load *load,
                                      const struct bench_load_options *options, uint64_t seed,
                                      struct bench_load_job *jobs, size_t count, int64_t *start_ns,
                                      char *err, size_t err_bytes) {
    pthread_t sender;
    bench_load_free_answers(load);
    load->jobs = jobs;
    load->count = count;
    load->extra_results = 0;
    load->is_stopping = load->has_failed = false;
    snprintf(load->run, sizeof load->run, "bench-%lld-%d-%u-", (long long)clock_unix_ms(NULL),
             (int)getpid(), load->run_count++);
    if (!bench_load_make_values(load, options, seed)) {
        snprintf(err, err_bytes, "no memory for %zu jobs", count);
        return BENCH_LOAD_NO_MEMORY;
    }
    *start_ns = load->start_ns = clock_monotonic_ns(NULL) + BENCH_LOAD_LEAD_MS * CLOCK_NS_PER_MS;
    if (pthread_create(&sender, NULL, bench_load_send_all, load) != 0) {
        bench_load_free_values(load);
        snprintf(err, err_bytes, "cannot start a thread");
        return BENCH_LOAD_NO_MEMORY;
    }
    enum bench_load_status status = bench_load_read_all(load, options, err, err_bytes);
    load->is_stopping = status != BENCH_LOAD_OK; /* else it ends with its last delivery */
    pthread_join(sender, NULL);
    if (status != BENCH_LOAD_OK) {
        kafka_producer_close(load->producer); /* it may still borrow the values */
        load->producer = NULL;
    }
    bench_load_free_values(load);
    return status;
}

enum bench_load_status bench_load_look(struct bench_load *load, int quiet_ms, size_t *extra_results,
                                       char *err, size_t err_bytes) {
    struct kafka_reader_record record;
    while (kafka_reader_read(load->reader, quiet_ms, true, &record, err, err_bytes) ==
           KAFKA_CLIENT_OK) {
        (void)bench_load_note(load, &record, clock_monotonic_ns(NULL));
    }
    *extra_results = load->extra_results;
    return bench_load_decode_all(load, err, err_bytes);
}

void bench_load_close(struct bench_load *load) {
    if (load) {
        bench_load_free_answers(load);
        kafka_producer_close(load->producer);
        kafka_reader_close(load->reader);
        free(load);
    }
}
