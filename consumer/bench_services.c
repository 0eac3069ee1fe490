#include "consumer/bench_services.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/command.h"
#include "consumer/kafka_admin.h"
#include "consumer/kafka_broker.h"
#include "consumer/status_client.h"
#include "engine/clock.h"

#define BENCH_SERVICES_TIMEOUT_MS 15000
#define BENCH_SERVICES_WAIT "fetch.wait.max.ms"
#define BENCH_SERVICES_WAIT_MS "5"
#define BENCH_SERVICES_WORDS_BYTES_MAX 2000 /* of a child's last words in a message */

/* ---- folder ---------------------------------------------------------------------------------- */

static bool bench_services_make_folder(struct bench_services *services) {
    const char *parent = getenv("TMPDIR");
    snprintf(services->folder, sizeof services->folder, "%.40s/solfleet-bench-XXXXXX",
             parent && parent[0] ? parent : "/tmp");
    if (!mkdtemp(services->folder)) {
        services->folder[0] = '\0';
        return false;
    }
    snprintf(services->redis_socket, sizeof services->redis_socket, "%s/redis.sock",
             services->folder);
    snprintf(services->redis_log, sizeof services->redis_log, "%s/redis.log", services->folder);
    return true;
}

static void bench_services_remove_folder(const struct bench_services *services) {
    if (services->folder[0]) {
        unlink(services->redis_socket);
        unlink(services->redis_log);
        rmdir(services->folder);
    }
}

static void bench_services_quote_log(const char *what, const char *path, char *err,
                                     size_t err_bytes) {
    char *words = bench_child_read_log(path, BENCH_SERVICES_WORDS_BYTES_MAX);
    snprintf(err, err_bytes, "%s:\n%s", what, words ? words : "(it said nothing)");
    free(words);
}

/* ---- Redis ----------------------------------------------------------------------------------- */

static bool bench_services_redis_answers(const struct bench_services *services, char *err,
                                         size_t err_bytes) {
    struct status_client *client = NULL;
    enum status_client_status status =
        status_client_open(services->config.redis, services->config.key_prefix,
                           BENCH_SERVICES_TIMEOUT_MS, &client, err, err_bytes);
    status_client_close(client);
    return status == STATUS_CLIENT_OK;
}

static int bench_services_start_redis(struct bench_services *services, char *err,
                                      size_t err_bytes) {
    char *argv[] = {"redis-server",
                    "--port",
                    "0",
                    "--unixsocket",
                    services->redis_socket,
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                    "--dir",
                    services->folder,
                    NULL};
    int64_t deadline_ns = clock_monotonic_ns(NULL) + BENCH_SERVICES_TIMEOUT_MS * CLOCK_NS_PER_MS;
    if (!bench_child_start(&services->redis, argv, services->redis_log, err, err_bytes)) {
        return COMMAND_EXIT_UNREACHABLE;
    }
    services->config.redis = services->redis_socket;
    while (!bench_services_redis_answers(services, err, err_bytes)) {
        if (!bench_child_is_running(&services->redis) || clock_monotonic_ns(NULL) > deadline_ns) {
            bench_services_quote_log("redis-server does not start (give one by --redis)",
                                     services->redis_log, err, err_bytes);
            return COMMAND_EXIT_UNREACHABLE;
        }
        poll(NULL, 0, 10);
    }
    return COMMAND_EXIT_OK;
}

/* ---- Kafka ----------------------------------------------------------------------------------- */

static int bench_services_make_topics(struct bench_services *services, int partitions, char *err,
                                      size_t err_bytes) {
    const struct config *config = &services->config;
    const char *names[] = {config->jobs_topic, config->results_topic, config->dead_letter_topic};
    struct kafka_admin_topic topics[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        topics[i] = (struct kafka_admin_topic){
            .name = names[i], .partitions = partitions, .replication = -1};
    }
    switch (kafka_admin_make_topics(config, topics, 3, BENCH_SERVICES_TIMEOUT_MS, err, err_bytes)) {
    case KAFKA_CLIENT_OK: return COMMAND_EXIT_OK;
    case KAFKA_CLIENT_BAD_SETTING: return COMMAND_EXIT_USAGE;
    default: return COMMAND_EXIT_UNREACHABLE;
    }
}

/* The in-process broker lets a fetch that found nothing wait to its end, whatever comes meanwhile;
 * a real one answers at once. */
static void bench_services_hurry(struct config *config) {
    for (size_t i = 0; i < config->kafka_count; i++) {
        if (strcmp(config->kafka[i].name, BENCH_SERVICES_WAIT) == 0) {
            return; /* the user knows better */
        }
    }
    if (config->kafka_count < CONFIG_PASS_MAX) {
        config->kafka[config->kafka_count++] =
            (struct config_pass){BENCH_SERVICES_WAIT, BENCH_SERVICES_WAIT_MS};
    }
}

static int bench_services_start_broker(struct bench_services *services, int partitions, char *err,
                                       size_t err_bytes) {
    const struct config *config = &services->config;
    const char *topics[] = {config->jobs_topic, config->results_topic, config->dead_letter_topic};
    services->broker = kafka_broker_open(topics, 3, partitions, err, err_bytes);
    if (!services->broker) {
        return COMMAND_EXIT_UNREACHABLE;
    }
    services->config.brokers = kafka_broker_address(services->broker);
    bench_services_hurry(&services->config);
    return COMMAND_EXIT_OK;
}

/* ---- open and close -------------------------------------------------------------------------- */

int bench_services_open(struct bench_services *services, const struct config *config,
                        const char *brokers, const char *redis, int partitions, char *err,
                        size_t err_bytes) {
    memset(services, 0, sizeof *services);
    services->config = *config;
    services->config.brokers = brokers ? brokers : config->brokers;
    services->config.redis = redis ? redis : config->redis;
    if (!bench_services_make_folder(services)) {
        snprintf(err, err_bytes, "cannot make a temporary folder: set TMPDIR");
        return COMMAND_EXIT_USAGE;
    }
    int code = COMMAND_EXIT_OK;
    if (!redis) {
        code = bench_services_start_redis(services, err, err_bytes);
    } else if (!bench_services_redis_answers(services, err, err_bytes)) {
        code = COMMAND_EXIT_UNREACHABLE;
    }
    if (code == COMMAND_EXIT_OK) {
        code = brokers ? bench_services_make_topics(services, partitions, err, err_bytes)
                       : bench_services_start_broker(services, partitions, err, err_bytes);
    }
    return code;
}

void bench_services_close(struct bench_services *services) {
    kafka_broker_close(services->broker);
    bench_child_stop(&services->redis, BENCH_SERVICES_TIMEOUT_MS);
    bench_services_remove_folder(services);
    memset(services, 0, sizeof *services);
}
