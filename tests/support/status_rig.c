#include "tests/support/status_rig.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "engine/clock.h"
#include "tests/support/test.h"

struct status_rig status_rig;

static int64_t status_rig_now_ms(void) {
    return clock_monotonic_ns(NULL) / CLOCK_NS_PER_MS;
}

static void status_rig_check_time(int64_t end_ms) {
    if (status_rig_now_ms() >= end_ms) {
        struct status_store_stats stats = status_rig_stats();
        fail_msg("waited too long: up %d, backlog %u, links %u, refused %u, unanswered %u",
                 stats.is_up, stats.backlog_count, (unsigned)stats.links_total,
                 (unsigned)stats.refused_total, (unsigned)stats.claims_unanswered);
    }
}

struct status_store_options status_rig_options(void) {
    return (struct status_store_options){.address = status_rig.server.url,
                                         .prefix = "solfleet:",
                                         .worker = "w1",
                                         .incarnation = "a",
                                         .lease_ms = 60000,
                                         .ttl_s = 100,
                                         .claim_timeout_ms = 2000,
                                         .link_timeout_ms = 5000,
                                         .backlog_max = 1000,
                                         .result_bytes_max = 1000};
}

void status_rig_turn(void) {
    struct pollfd watch = status_store_pollfd(status_rig.store);
    poll(&watch, 1, 1);
    status_store_handle(status_rig.store, watch.revents);
}

struct status_store_stats status_rig_stats(void) {
    struct status_store_stats stats;
    status_store_stats(status_rig.store, &stats);
    return stats;
}

void status_rig_reopen(const struct status_store_options *options) {
    char err[256];
    status_store_close(status_rig.store);
    assert_true(status_store_open(options, &status_rig.store, err, sizeof err));
    int64_t end_ms = status_rig_now_ms() + STATUS_RIG_WAIT_MS_MAX;
    while (!status_rig_stats().is_up) {
        status_rig_check_time(end_ms);
        status_rig_turn();
    }
}

void status_rig_kill_server(void) {
    redis_server_kill(&status_rig.server);
    int64_t end_ms = status_rig_now_ms() + STATUS_RIG_WAIT_MS_MAX;
    while (status_rig_stats().is_up) {
        status_rig_check_time(end_ms);
        status_rig_turn();
    }
}

void status_rig_restart_server(void) {
    redis_server_restart(&status_rig.server);
    redisFree(status_rig.direct);
    status_rig.direct = redisConnect("127.0.0.1", status_rig.server.port);
}

void status_rig_wait_replayed(void) {
    int64_t end_ms = status_rig_now_ms() + STATUS_RIG_WAIT_MS_MAX;
    while (!status_rig_stats().is_up || status_rig_stats().backlog_count > 0) {
        status_rig_check_time(end_ms);
        status_rig_turn();
    }
}

void status_rig_answers(struct status_store_answer *answers, uint32_t count) {
    status_store_flush(status_rig.store);
    uint32_t taken = 0;
    int64_t end_ms = status_rig_now_ms() + STATUS_RIG_WAIT_MS_MAX;
    while (taken < count) {
        status_rig_check_time(end_ms);
        if (status_store_take(status_rig.store, &answers[taken])) {
            taken++;
        } else {
            status_rig_turn();
        }
    }
}

void status_rig_queue_claim(uint64_t ticket, const char *id, const char *fingerprint,
                            int64_t offset) {
    struct status_store_claim claim = {.request_id = id,
                                       .source = {.partition = 0, .offset = offset, .epoch = 1},
                                       .fingerprint = fingerprint,
                                       .queued_unix_ms = 1234};
    status_store_claim(status_rig.store, ticket, &claim);
}

struct status_store_answer status_rig_claim(const char *id, const char *fingerprint,
                                            int64_t offset) {
    struct status_store_answer answer;
    status_rig_queue_claim(9, id, fingerprint, offset);
    status_rig_answers(&answer, 1);
    assert_int_equal(answer.kind, STATUS_STORE_CLAIM);
    assert_int_equal(answer.ticket, 9);
    return answer;
}

struct status_store_finish status_rig_end(const char *id, const char *fingerprint,
                                          enum status_state state, const char *result) {
    return (struct status_store_finish){.request_id = id,
                                        .fingerprint = fingerprint,
                                        .state = state,
                                        .started_unix_ms = -1,
                                        .finished_unix_ms = 5678,
                                        .prompt_tokens = 3,
                                        .completion_tokens = 4,
                                        .result_topic = "results",
                                        .result_partition = 0,
                                        .result_offset = 0,
                                        .result = result,
                                        .result_bytes = strlen(result)};
}

struct status_store_answer status_rig_seal(const struct status_store_finish *finish) {
    struct status_store_answer answer;
    status_store_seal(status_rig.store, 8, finish);
    status_rig_answers(&answer, 1);
    assert_int_equal(answer.kind, STATUS_STORE_SEAL);
    assert_int_equal(answer.ticket, 8);
    return answer;
}

struct status_store_answer status_rig_finish(const struct status_store_finish *finish) {
    struct status_store_answer answer;
    status_store_finish(status_rig.store, 7, finish);
    status_rig_answers(&answer, 1);
    assert_int_equal(answer.kind, STATUS_STORE_FINISH);
    assert_int_equal(answer.ticket, 7);
    return answer;
}

void status_rig_settle(void) {
    static unsigned barriers;
    char id[32];
    snprintf(id, sizeof id, "barrier-%u", barriers++);
    status_store_flush(status_rig.store); /* claims go last */
    assert_true(status_rig_claim(id, "f", 1).reached);
}

void status_rig_advance(const char *id, uint32_t attempt, const char *text) {
    struct status_store_advance advance = {.request_id = id,
                                           .attempt = attempt,
                                           .started_unix_ms = 2000,
                                           .prompt_tokens = 3,
                                           .completion_tokens = 1,
                                           .text = text};
    status_store_advance(status_rig.store, &advance);
    status_rig_settle();
}

void status_rig_order(const char *format, ...) {
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    redisReply *reply = redisCommand(status_rig.direct, command);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

void status_rig_assert_field(const char *id, const char *field, const char *expected) {
    char key[256];
    assert_true(status_key(key, sizeof key, "solfleet:", id));
    redisReply *reply = redisCommand(status_rig.direct, "HGET %s %s", key, field);
    assert_non_null(reply);
    if (expected == NULL) {
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    } else {
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        assert_string_equal(reply->str, expected);
    }
    freeReplyObject(reply);
}

void status_rig_assert_claimed(struct status_store_answer answer, enum status_store_claimed claimed,
                               uint32_t attempt) {
    assert_true(answer.reached);
    assert_int_equal(answer.claimed, claimed);
    assert_int_equal(answer.attempt, attempt);
}

int status_rig_start(void **state) {
    (void)state;
    if (status_rig.server.pid == 0) {
        redis_server_open(&status_rig.server);
    }
    status_rig.direct = redisConnect("127.0.0.1", status_rig.server.port);
    struct status_store_options usual = status_rig_options();
    status_rig.store = NULL;
    status_rig_reopen(&usual);
    return 0;
}

int status_rig_stop(void **state) {
    (void)state;
    status_store_close(status_rig.store);
    status_rig.store = NULL;
    redisFree(status_rig.direct);
    return 0;
}

int status_rig_stop_server(void **state) {
    (void)state;
    redis_server_close(&status_rig.server);
    return 0;
}
