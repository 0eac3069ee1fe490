/* A table of what a job's life in Redis costs, by the keys of one script call: claimed, sealed with
 * a result of 1 KB, finished; started, too, where a column says so.
 *
 *     bench_store ADDRESS
 *
 * Microseconds of processor time, of the server (as it says itself) and of this process, and the
 * commands that the server ran, script calls and calls within scripts together. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "consumer/redis_address.h"
#include "consumer/status_store.h"

#define JOBS 20000
#define RESULT_BYTES 1024
#define PREFIX "solfleet:bench-store:"

struct bench {
    struct status_store *store;
    redisContext *context;
    char result[RESULT_BYTES + 1];
    uint64_t first; /* number of the run's first job */
};

static void must(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

/* ---- calls ---- */

static void name_of(uint64_t number, char id[32]) {
    snprintf(id, 32, "bench-%012" PRIu64, number);
}

static void claim(struct bench *bench, uint64_t number) {
    char id[32], fingerprint[65];
    name_of(number, id);
    snprintf(fingerprint, sizeof fingerprint, "%064" PRIu64, number);
    struct status_store_claim call = {.request_id = id,
                                      .source = {.partition = 1, .offset = (int64_t)number},
                                      .fingerprint = fingerprint,
                                      .queued_unix_ms = 1764000000000};
    status_store_claim(bench->store, number, &call);
}

static void start(struct bench *bench, uint64_t number) {
    char id[32];
    name_of(number, id);
    struct status_store_advance call = {
        .request_id = id, .attempt = 1, .started_unix_ms = 1764000000001, .prompt_tokens = 100};
    status_store_advance(bench->store, &call);
}

static struct status_store_finish outcome_of(const struct bench *bench, const char *id,
                                             const char *fingerprint) {
    return (struct status_store_finish){.request_id = id,
                                        .fingerprint = fingerprint,
                                        .state = STATUS_DONE,
                                        .attempt = 1,
                                        .started_unix_ms = 1764000000001,
                                        .finished_unix_ms = 1764000000002,
                                        .prompt_tokens = 100,
                                        .completion_tokens = 128,
                                        .result = bench->result,
                                        .result_bytes = RESULT_BYTES};
}

static void end(struct bench *bench, uint64_t number, bool is_sealed) {
    char id[32], fingerprint[65];
    name_of(number, id);
    snprintf(fingerprint, sizeof fingerprint, "%064" PRIu64, number);
    struct status_store_finish call = outcome_of(bench, id, fingerprint);
    if (!is_sealed) {
        status_store_seal(bench->store, number, &call);
        return;
    }
    call.is_sealed = true;
    call.result_topic = "solfleet.results";
    call.result_partition = 3;
    call.result_offset = (int64_t)number;
    status_store_finish(bench->store, number, &call);
}

/* ---- runs ---- */

static void wait_for(struct bench *bench, size_t answers) {
    struct status_store_answer answer;
    status_store_flush(bench->store);
    while (answers > 0) {
        struct pollfd watched = status_store_pollfd(bench->store);
        must(poll(&watched, 1, 10000) == 1, "an answer");
        status_store_handle(bench->store, watched.revents);
        while (status_store_take(bench->store, &answer)) {
            must(answer.reached, "reaching Redis");
            answers--;
        }
    }
}

/* Three groups of jobs are under way at a time: one is claimed, one sealed, one finished. */
static void run(struct bench *bench, uint32_t keys, bool starts) {
    uint64_t groups = JOBS / keys;
    for (uint64_t round = 0; round < groups + 2; round++) {
        size_t answers = 0;
        for (uint64_t stage = 0; stage < 3; stage++) {
            uint64_t group = round - stage;
            for (uint64_t i = 0; i < keys && round >= stage && group < groups; i++, answers++) {
                uint64_t number = bench->first + group * keys + i;
                if (stage == 0) {
                    claim(bench, number);
                } else {
                    end(bench, number, stage == 2);
                }
                if (stage == 1 && starts) {
                    start(bench, number);
                }
            }
        }
        wait_for(bench, answers);
    }
}

static void forget(struct bench *bench) {
    for (uint64_t number = bench->first; number < bench->first + JOBS; number++) {
        char id[32], key[64];
        name_of(number, id);
        must(status_key(key, sizeof key, PREFIX, id), "status_key");
        must(redisAppendCommand(bench->context, "DEL %s", key) == REDIS_OK, "DEL");
    }
    for (uint64_t i = 0; i < JOBS; i++) {
        void *reply;
        must(redisGetReply(bench->context, &reply) == REDIS_OK, "DEL");
        freeReplyObject(reply);
    }
    bench->first += JOBS;
}

/* ---- figures ---- */

static double info_of(struct bench *bench, const char *section, const char *name) {
    redisReply *reply = redisCommand(bench->context, "INFO %s", section);
    must(reply != NULL && reply->type != REDIS_REPLY_ERROR, "INFO");
    const char *at = strstr(reply->str, name);
    must(at != NULL, name);
    double value = strtod(at + strlen(name), NULL);
    freeReplyObject(reply);
    return value;
}

static double server_us(struct bench *bench) {
    return 1e6 * (info_of(bench, "cpu", "used_cpu_user_main_thread:") +
                  info_of(bench, "cpu", "used_cpu_sys_main_thread:"));
}

static double own_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void measure(struct bench *bench, uint32_t keys, bool starts) {
    double jobs = JOBS / keys * keys;
    double commands = info_of(bench, "stats", "total_commands_processed:");
    double server = server_us(bench), own = own_us();
    run(bench, keys, starts);
    own = own_us() - own;
    server = server_us(bench) - server;
    commands = info_of(bench, "stats", "total_commands_processed:") - commands;
    printf("%6u %8s %12.2f %12.2f %10.2f\n", keys, starts ? "yes" : "no", server / jobs, own / jobs,
           commands / jobs);
    fflush(stdout);
    forget(bench);
}

static void connect_to(struct bench *bench, const char *text) {
    struct redis_address address;
    char err[256] = "";
    must(redis_address_parse(text, &address, err, sizeof err), err);
    bench->context = redisConnect(address.host, address.port);
    must(bench->context != NULL && bench->context->err == 0, "connecting");
    struct status_store_options options = {.address = text,
                                           .prefix = PREFIX,
                                           .worker = "bench",
                                           .incarnation = "0123456789abcdef",
                                           .lease_ms = 10000,
                                           .ttl_s = 3600,
                                           .claim_timeout_ms = 10000,
                                           .link_timeout_ms = 10000,
                                           .backlog_max = 1,
                                           .result_bytes_max = 65536};
    must(status_store_open(&options, &bench->store, err, sizeof err), err);
    struct status_store_stats stats = {0};
    while (!stats.is_up) {
        struct pollfd watched = status_store_pollfd(bench->store);
        poll(&watched, 1, 100);
        status_store_handle(bench->store, watched.revents);
        status_store_stats(bench->store, &stats);
    }
}

int main(int argc, char **argv) {
    struct bench bench = {.first = (uint64_t)time(NULL) * 1000000};
    if (argc != 2) {
        fprintf(stderr, "bench_store ADDRESS\n");
        return 2;
    }
    memset(bench.result, 'x', RESULT_BYTES);
    connect_to(&bench, argv[1]);
    printf("%6s %8s %12s %12s %10s\n", "keys", "started", "Redis us", "own us", "commands");
    static const uint32_t keys[] = {1, 4, 16, 64, 128};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        measure(&bench, keys[i], false);
    }
    measure(&bench, 128, true);
    status_store_close(bench.store);
    redisFree(bench.context);
    return 0;
}
