#include "tests/support/worker_rig.h"

#include <hiredis/hiredis.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/clock.h"
#include "schemas/status.h"
#include "tests/support/test.h"

static const char results_topic[] = "solfleet.results";
static const char letters_topic[] = "solfleet.dead-letter";

struct worker_rig_cluster {
    rd_kafka_t *host; /* the cluster hangs on a handle */
    rd_kafka_mock_cluster_t *mock;
    rd_kafka_t *producer;
};

struct worker_rig_reader {
    rd_kafka_t *handle;
};

static int64_t worker_rig_now_ms(void) {
    return clock_monotonic_ns(NULL) / CLOCK_NS_PER_MS;
}

static rd_kafka_t *worker_rig_handle(struct worker_rig *rig, rd_kafka_type_t type,
                                     const char *group) {
    char err[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    if (rig != NULL) {
        rd_kafka_conf_set(conf, "bootstrap.servers", rig->brokers, err, sizeof err);
        rd_kafka_conf_set(conf, "reconnect.backoff.max.ms", "200", err, sizeof err);
    }
    if (group != NULL) {
        rd_kafka_conf_set(conf, "group.id", group, err, sizeof err);
        rd_kafka_conf_set(conf, "fetch.wait.max.ms", "20", err, sizeof err);
    }
    rd_kafka_t *handle = rd_kafka_new(type, conf, err, sizeof err);
    assert_non_null(handle);
    return handle;
}

/* ---- readers ---- */

static struct worker_rig_reader *worker_rig_read(struct worker_rig *rig, const char *topic) {
    struct worker_rig_reader *reader = calloc(1, sizeof *reader);
    assert_non_null(reader);
    reader->handle = worker_rig_handle(rig, RD_KAFKA_CONSUMER, "rig-reader");
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0)->offset = RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(reader->handle, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    return reader;
}

static void worker_rig_close_reader(struct worker_rig_reader *reader) {
    rd_kafka_consumer_close(reader->handle);
    rd_kafka_destroy(reader->handle);
    free(reader);
}

static char *worker_rig_copy(const void *bytes, size_t size) {
    if (bytes == NULL) {
        return NULL;
    }
    char *copy = calloc(1, size + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return copy;
}

static struct worker_rig_record worker_rig_record_of(const rd_kafka_message_t *message) {
    struct worker_rig_record record = {.key = worker_rig_copy(message->key, message->key_len),
                                       .key_bytes = message->key_len,
                                       .value = worker_rig_copy(message->payload, message->len),
                                       .value_bytes = message->len,
                                       .partition = message->partition,
                                       .offset = message->offset};
    rd_kafka_headers_t *headers = NULL;
    const char *name;
    const void *value;
    size_t size, used = 0;
    rd_kafka_message_headers(message, &headers);
    for (size_t i = 0;
         headers != NULL && rd_kafka_header_get_all(headers, i, &name, &value, &size) == 0; i++) {
        used += (size_t)snprintf(record.headers + used, sizeof record.headers - used, "%s=%.*s\n",
                                 name, (int)size, value != NULL ? (const char *)value : "");
    }
    return record;
}

static bool worker_rig_poll_reader(struct worker_rig_reader *reader, int wait_ms,
                                   struct worker_rig_record *record) {
    rd_kafka_message_t *message = rd_kafka_consumer_poll(reader->handle, wait_ms);
    if (message == NULL) {
        return false;
    }
    bool found = message->err == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (found) {
        *record = worker_rig_record_of(message);
    }
    rd_kafka_message_destroy(message);
    return found;
}

/* Fails with what the worker says of itself when a wait takes too long. */
static void worker_rig_check_time(const struct worker_rig *rig, int64_t end_ms) {
    if (worker_rig_now_ms() >= end_ms) {
        struct worker_stats stats = worker_rig_stats(rig);
        fail_msg("waited too long: received %u, settled %u, in flight %u, done %u, full %d",
                 (unsigned)stats.source.received_total, (unsigned)stats.source.settled_total,
                 stats.in_flight, (unsigned)stats.done, stats.is_full);
    }
}

static struct worker_rig_record worker_rig_next(struct worker_rig *rig,
                                                struct worker_rig_reader *reader) {
    struct worker_rig_record record;
    for (int64_t end = worker_rig_now_ms() + WORKER_RIG_WAIT_MS_MAX;
         !worker_rig_poll_reader(reader, 0, &record);) {
        worker_rig_check_time(rig, end);
        if (rig->worker != NULL) {
            worker_rig_step(rig);
        }
    }
    return record;
}

struct worker_rig_record worker_rig_next_result(struct worker_rig *rig) {
    return worker_rig_next(rig, rig->results);
}

struct worker_rig_record worker_rig_next_letter(struct worker_rig *rig) {
    return worker_rig_next(rig, rig->letters);
}

/* A read up to the topic's end, known by its high watermark. */
static bool worker_rig_is_empty(struct worker_rig_reader *reader, const char *topic) {
    int64_t low, high;
    assert_int_equal(rd_kafka_query_watermark_offsets(reader->handle, topic, 0, &low, &high, 5000),
                     0);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0);
    assert_int_equal(rd_kafka_position(reader->handle, list), 0);
    int64_t next = list->elems[0].offset == RD_KAFKA_OFFSET_INVALID ? 0 : list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    return next == high;
}

bool worker_rig_has_no_result(struct worker_rig *rig) {
    return worker_rig_is_empty(rig->results, results_topic);
}

bool worker_rig_has_no_letter(struct worker_rig *rig) {
    return worker_rig_is_empty(rig->letters, letters_topic);
}

void worker_rig_free(struct worker_rig_record *record) {
    free(record->key);
    free(record->value);
    *record = (struct worker_rig_record){0};
}

bool worker_rig_has_header(const struct worker_rig_record *record, const char *name,
                           const char *value) {
    char line[512];
    snprintf(line, sizeof line, "%s=%s\n", name, value);
    const char *at = strstr(record->headers, line);
    return at != NULL && (at == record->headers || at[-1] == '\n');
}

/* ---- cluster and Redis ---- */

void worker_rig_open(struct worker_rig *rig) {
    memset(rig, 0, sizeof *rig);
    redis_server_open(&rig->redis);
    rig->cluster = calloc(1, sizeof *rig->cluster);
    assert_non_null(rig->cluster);
    rig->cluster->host = worker_rig_handle(NULL, RD_KAFKA_PRODUCER, NULL);
    rig->cluster->mock = rd_kafka_mock_cluster_new(rig->cluster->host, 1);
    assert_non_null(rig->cluster->mock);
    snprintf(rig->brokers, sizeof rig->brokers, "%s",
             rd_kafka_mock_cluster_bootstraps(rig->cluster->mock));
    rd_kafka_mock_topic_create(rig->cluster->mock, results_topic, 1, 1);
    rd_kafka_mock_topic_create(rig->cluster->mock, letters_topic, 1, 1);
    rig->cluster->producer = worker_rig_handle(rig, RD_KAFKA_PRODUCER, NULL);
    rig->results = worker_rig_read(rig, results_topic);
    rig->letters = worker_rig_read(rig, letters_topic);
    log_init(&rig->log, STDERR_FILENO,
             getenv("SOLFLEET_TEST_LOG") != NULL ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, NULL);
}

void worker_rig_close(struct worker_rig *rig) {
    worker_rig_stop(rig);
    worker_rig_close_reader(rig->results);
    worker_rig_close_reader(rig->letters);
    rd_kafka_destroy(rig->cluster->producer);
    rd_kafka_mock_cluster_destroy(rig->cluster->mock);
    rd_kafka_destroy(rig->cluster->host);
    free(rig->cluster);
    redis_server_close(&rig->redis);
}

void worker_rig_broker_down(struct worker_rig *rig) {
    assert_int_equal(rd_kafka_mock_broker_set_down(rig->cluster->mock, -1), 0);
}

void worker_rig_broker_up(struct worker_rig *rig) {
    assert_int_equal(rd_kafka_mock_broker_set_up(rig->cluster->mock, -1), 0);
}

/* ---- the worker ---- */

static void worker_rig_configure(struct worker_rig *rig, const char *group,
                                 const char *const *words) {
    char *argv[48];
    int argc = 0;
    const char *first[] = {"worker",
                           "--brokers",
                           rig->brokers,
                           "--redis",
                           rig->redis.url,
                           "--group",
                           group,
                           "--jobs-topic",
                           rig->jobs_topic,
                           "--commit-interval-ms",
                           "20",
                           "--kafka.fetch.wait.max.ms",
                           "20",
                           "--kafka.reconnect.backoff.max.ms",
                           "200",
                           "--redis.claim-timeout-ms",
                           "3000",
                           "--redis.timeout-ms",
                           "3000"};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        argv[argc++] = (char *)(uintptr_t)first[i];
    }
    for (; words != NULL && *words != NULL; words++) {
        argv[argc++] = (char *)(uintptr_t)*words;
    }
    const struct config_spec spec = {
        .name = "worker", .command = CONFIG_WORKER, .usage = "", .summary = ""};
    char err[256];
    if (config_read(&rig->config, &spec, argc, argv, NULL, err, sizeof err) != CONFIG_OK) {
        fail_msg("%s", err);
    }
}

void worker_rig_prepare(struct worker_rig *rig, const char *group, const char *const *words,
                        const struct engine_null_options *engine) {
    char err[256];
    snprintf(rig->jobs_topic, sizeof rig->jobs_topic, "solfleet.jobs.%s", group);
    rd_kafka_mock_topic_create(rig->cluster->mock, rig->jobs_topic, WORKER_RIG_PARTITIONS, 1);
    worker_rig_configure(rig, group, words);
    struct engine_null_options usual = {.completion_tokens = 4, .answer_bytes = 64};
    enum engine_status opened =
        rig->model != NULL
            ? engine_open(rig->model, &rig->engine, err, sizeof err)
            : engine_null_open(engine != NULL ? engine : &usual, &rig->engine, err, sizeof err);
    if (opened != ENGINE_OK) {
        fail_msg("%s", err);
    }
    if (!rig->holds_engine) {
        assert_int_equal(engine_start(rig->engine, err, sizeof err), ENGINE_OK);
    }
    struct worker_options options = {.config = &rig->config,
                                     .name = "rig",
                                     .engine = rig->engine,
                                     .wake_fd = -1,
                                     .log = &rig->log};
    if (worker_open(&options, &rig->worker, err, sizeof err) != WORKER_OK) {
        fail_msg("%s", err);
    }
}

void worker_rig_start(struct worker_rig *rig, const char *group, const char *const *words,
                      const struct engine_null_options *engine) {
    char err[256];
    worker_rig_prepare(rig, group, words, engine);
    if (worker_join(rig->worker, 5000, err, sizeof err) != WORKER_OK) {
        fail_msg("%s", err);
    }
}

void worker_rig_stop(struct worker_rig *rig) {
    worker_close(rig->worker);
    engine_close(rig->engine);
    config_deinit(&rig->config);
    rig->worker = NULL;
    rig->engine = NULL;
    rig->holds_engine = false;
    rig->model = NULL;
}

void worker_rig_step(struct worker_rig *rig) {
    char err[256];
    if (worker_step(rig->worker, 5, err, sizeof err) != WORKER_OK) {
        fail_msg("%s", err);
    }
}

void worker_rig_release(struct worker_rig *rig) {
    char err[256];
    assert_true(rig->holds_engine);
    assert_int_equal(engine_start(rig->engine, err, sizeof err), ENGINE_OK);
}

struct worker_stats worker_rig_stats(const struct worker_rig *rig) {
    struct worker_stats stats;
    worker_stats(rig->worker, &stats);
    return stats;
}

void worker_rig_until_ready(struct worker_rig *rig) {
    for (int64_t end = worker_rig_now_ms() + WORKER_RIG_WAIT_MS_MAX;
         worker_rig_stats(rig).source.partition_count == 0 || !worker_rig_stats(rig).store.is_up;) {
        worker_rig_check_time(rig, end);
        worker_rig_step(rig);
    }
}

void worker_rig_until_drained(struct worker_rig *rig) {
    for (int64_t end = worker_rig_now_ms() + WORKER_RIG_WAIT_MS_MAX;
         !worker_is_drained(rig->worker);) {
        worker_rig_check_time(rig, end);
        worker_rig_step(rig);
    }
}

/* ---- the client ---- */

void worker_rig_produce(struct worker_rig *rig, int32_t partition, const char *key,
                        const void *value, size_t value_bytes, const char *const *headers) {
    rd_kafka_headers_t *list = NULL;
    size_t key_bytes = key != NULL ? strlen(key) : 0;
    if (headers != NULL) {
        list = rd_kafka_headers_new(8);
        for (; *headers != NULL; headers += 2) {
            rd_kafka_header_add(list, headers[0], -1, headers[1], -1);
        }
    }
    rd_kafka_resp_err_t error = rd_kafka_producev(
        rig->cluster->producer, RD_KAFKA_V_TOPIC(rig->jobs_topic), RD_KAFKA_V_PARTITION(partition),
        RD_KAFKA_V_KEY(key, key_bytes), RD_KAFKA_V_VALUE((void *)(uintptr_t)value, value_bytes),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(list), RD_KAFKA_V_END);
    assert_int_equal(error, 0);
    assert_int_equal(rd_kafka_flush(rig->cluster->producer, WORKER_RIG_WAIT_MS_MAX), 0);
}

void worker_rig_produce_at(struct worker_rig *rig, int64_t timestamp_unix_ms, const char *value) {
    rd_kafka_resp_err_t error = rd_kafka_producev(
        rig->cluster->producer, RD_KAFKA_V_TOPIC(rig->jobs_topic),
        RD_KAFKA_V_PARTITION(RD_KAFKA_PARTITION_UA), RD_KAFKA_V_TIMESTAMP(timestamp_unix_ms),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)value, strlen(value)),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    assert_int_equal(error, 0);
}

void worker_rig_make_topic(struct worker_rig *rig, const char *topic) {
    rd_kafka_mock_topic_create(rig->cluster->mock, topic, WORKER_RIG_PARTITIONS, 1);
}

void worker_rig_produce_to(struct worker_rig *rig, const char *topic, int32_t partition,
                           const char *id) {
    char value[256];
    int size = snprintf(value, sizeof value, "{\"request_id\": \"%s\", \"prompt\": \"hello\"}", id);
    rd_kafka_resp_err_t error =
        rd_kafka_producev(rig->cluster->producer, RD_KAFKA_V_TOPIC(topic),
                          RD_KAFKA_V_PARTITION(partition), RD_KAFKA_V_VALUE(value, (size_t)size),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    assert_int_equal(error, 0);
}

void worker_rig_flush(struct worker_rig *rig) {
    assert_int_equal(rd_kafka_flush(rig->cluster->producer, WORKER_RIG_WAIT_MS_MAX), 0);
}

void worker_rig_produce_job(struct worker_rig *rig, const char *id) {
    char value[256];
    int size = snprintf(value, sizeof value, "{\"request_id\": \"%s\", \"prompt\": \"hello\"}", id);
    worker_rig_produce(rig, RD_KAFKA_PARTITION_UA, id, value, (size_t)size, NULL);
}

int64_t worker_rig_committed(struct worker_rig *rig, const char *group, int32_t partition) {
    rd_kafka_t *handle = worker_rig_handle(rig, RD_KAFKA_CONSUMER, group);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, rig->jobs_topic, partition);
    assert_int_equal(rd_kafka_committed(handle, list, 10000), 0);
    int64_t offset = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(handle);
    return offset == RD_KAFKA_OFFSET_INVALID ? -1 : offset;
}

void worker_rig_redis(struct worker_rig *rig, const char *format, ...) {
    va_list arguments;
    redisContext *link = redisConnect("127.0.0.1", rig->redis.port);
    assert_true(link != NULL && link->err == 0);
    va_start(arguments, format);
    redisReply *reply = redisvCommand(link, format, arguments);
    va_end(arguments);
    assert_true(reply != NULL && reply->type != REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    redisFree(link);
}

void worker_rig_queue(struct worker_rig *rig, const char *id) {
    char key[256];
    assert_true(status_key(key, sizeof key, "solfleet:", id));
    redisContext *link = redisConnect("127.0.0.1", rig->redis.port);
    assert_true(link != NULL && link->err == 0);
    freeReplyObject(redisCommand(link, "HSET %s state queued queued_at 1", key));
    redisFree(link);
}

char *worker_rig_status(struct worker_rig *rig, const char *id, const char *field) {
    char key[256];
    assert_true(status_key(key, sizeof key, "solfleet:", id));
    redisContext *link = redisConnect("127.0.0.1", rig->redis.port);
    assert_true(link != NULL && link->err == 0);
    redisReply *reply = redisCommand(link, "HGET %s %s", key, field);
    assert_non_null(reply);
    char *value = reply->type == REDIS_REPLY_STRING ? strdup(reply->str) : NULL;
    freeReplyObject(reply);
    redisFree(link);
    return value;
}

rd_kafka_t *worker_rig_join(const struct worker_rig *rig, const char *group) {
    char err[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    rd_kafka_conf_set(conf, "bootstrap.servers", rig->brokers, err, sizeof err);
    rd_kafka_conf_set(conf, "group.id", group, err, sizeof err);
    rd_kafka_conf_set(conf, "session.timeout.ms", "6000", err, sizeof err);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", err, sizeof err);
    rd_kafka_t *member = rd_kafka_new(RD_KAFKA_CONSUMER, conf, err, sizeof err);
    assert_non_null(member);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, rig->jobs_topic, RD_KAFKA_PARTITION_UA);
    assert_int_equal(rd_kafka_subscribe(member, topics), 0);
    rd_kafka_topic_partition_list_destroy(topics);
    return member;
}
