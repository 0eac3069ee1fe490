/* The clients' side of Redis, against a real server. */
#include "consumer/status_client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "tests/support/redis_server.h"
#include "tests/support/test.h"

static struct redis_server server;

static int start_server(void **state) {
    redis_server_open(&server);
    return 0;
}

static int stop_server(void **state) {
    redis_server_close(&server);
    return 0;
}

/* Runs one command as a worker or an operator would; its integer, or 0. */
static long long order(const char *format, ...) {
    redisContext *link = redisConnect("127.0.0.1", server.port);
    assert_int_equal(link->err, 0);
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(link, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    long long value = reply->integer;
    freeReplyObject(reply);
    redisFree(link);
    return value;
}

static struct status_client *opened(int64_t timeout_ms) {
    struct status_client *client = NULL;
    char err[512] = "";
    enum status_client_status status =
        status_client_open(server.url, "solfleet:", timeout_ms, &client, err, sizeof err);
    if (status != STATUS_CLIENT_OK) {
        fail_msg("%s", err);
    }
    return client;
}

static enum status_state state_of(struct status_client *client, const char *id) {
    struct status status;
    char err[512];
    assert_int_equal(status_client_read(client, &id, 1, &status, err, sizeof err),
                     STATUS_CLIENT_OK);
    enum status_state state = status.state;
    status_deinit(&status);
    return state;
}

static void writes_queued_with_a_life_and_only_where_nothing_stands(void **state) {
    struct status_client *client = opened(2000);
    order("HSET solfleet:job:{old} state done");
    const char *ids[] = {"new", "old"};
    bool created[2];
    char err[512];
    assert_int_equal(
        status_client_queue(client, ids, 2, 1700000000123, 1000, created, err, sizeof err),
        STATUS_CLIENT_OK);
    assert_true(created[0]);
    assert_false(created[1]);
    struct status read[2];
    assert_int_equal(status_client_read(client, ids, 2, read, err, sizeof err), STATUS_CLIENT_OK);
    assert_int_equal(read[0].state, STATUS_QUEUED);
    assert_true(read[0].queued_at == 1700000000123);
    assert_int_equal(read[1].state, STATUS_DONE);
    assert_true(read[1].queued_at == -1);
    assert_in_range(order("TTL solfleet:job:{new}"), 990, 1000);
    assert_true(order("TTL solfleet:job:{old}") == -1);
    status_deinit(&read[0]);
    status_deinit(&read[1]);
    status_client_close(client);
}

static void pipelines_more_ids_than_fit_one_round(void **state) {
    enum { COUNT = 700 };
    static char names[COUNT][24];
    static const char *ids[COUNT];
    static bool created[COUNT];
    static struct status read[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "many-%d", i);
        ids[i] = names[i];
    }
    struct status_client *client = opened(5000);
    char err[512];
    assert_int_equal(status_client_queue(client, ids, COUNT, 1, 100, created, err, sizeof err),
                     STATUS_CLIENT_OK);
    assert_int_equal(status_client_read(client, ids, COUNT, read, err, sizeof err),
                     STATUS_CLIENT_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(created[i]);
        assert_int_equal(read[i].state, STATUS_QUEUED);
        assert_string_equal(read[i].request_id, ids[i]);
        status_deinit(&read[i]);
    }
    status_client_close(client);
}

static void gives_unknown_for_a_key_that_is_absent(void **state) {
    struct status_client *client = opened(2000);
    assert_int_equal(state_of(client, "absent"), STATUS_UNKNOWN);
    status_client_close(client);
}

static void sees_a_job_that_is_only_sealed_as_running(void **state) {
    struct status_client *client = opened(2000);
    order("HSET solfleet:job:{sealed} state running sealed done finished_at 5 result {} "
          "cancel_requested 1");
    const char *ids[] = {"sealed"};
    struct status read;
    char err[512];
    assert_int_equal(status_client_read(client, ids, 1, &read, err, sizeof err), STATUS_CLIENT_OK);
    assert_int_equal(read.state, STATUS_RUNNING);
    assert_null(read.result);
    assert_true(read.finished_at == -1);
    assert_true(read.cancel_requested);
    status_deinit(&read);
    status_client_close(client);
}

static void refuses_a_hash_that_is_no_status(void **state) {
    struct status_client *client = opened(2000);
    order("HSET solfleet:job:{odd} state purple");
    order("SET solfleet:job:{text} hello");
    const char *odd = "odd", *text = "text";
    struct status status;
    char err[512];
    assert_int_equal(status_client_read(client, &odd, 1, &status, err, sizeof err),
                     STATUS_CLIENT_REFUSED);
    assert_non_null(strstr(err, "odd"));
    assert_int_equal(status_client_read(client, &text, 1, &status, err, sizeof err),
                     STATUS_CLIENT_REFUSED);
    assert_non_null(strstr(err, "WRONGTYPE"));
    assert_int_equal(state_of(client, "absent"), STATUS_UNKNOWN); /* and goes on */
    status_client_close(client);
}

/* Waits for the event of one id. */
static void await_event(struct status_client *client, const char *expected) {
    char id[JOB_ID_BYTES_MAX + 1] = "", err[512] = "";
    struct pollfd ready = {.fd = status_client_event_fd(client), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 5000), 1);
    assert_int_equal(status_client_take_event(client, id, err, sizeof err), STATUS_CLIENT_OK);
    assert_string_equal(id, expected);
}

static void hears_of_changes_of_the_ids_it_subscribed_to(void **state) {
    struct status_client *client = opened(2000);
    const char *ids[] = {"a", "b"};
    char id[JOB_ID_BYTES_MAX + 1], err[512];
    assert_int_equal(status_client_event_fd(client), -1);
    assert_int_equal(status_client_subscribe(client, ids, 2, err, sizeof err), STATUS_CLIENT_OK);
    assert_int_equal(status_client_take_event(client, id, err, sizeof err), STATUS_CLIENT_NONE);
    assert_int_equal(order("PUBLISH solfleet:events:{c} x"), 0);
    assert_int_equal(order("PUBLISH solfleet:events:{b} x"), 1);
    await_event(client, "b");
    assert_int_equal(order("PUBLISH solfleet:events:{a} x"), 1);
    await_event(client, "a");
    status_client_close(client);
}

static void comes_back_after_a_restart_of_the_server(void **state) {
    struct status_client *client = opened(2000);
    const char *id = "a";
    char event[JOB_ID_BYTES_MAX + 1], err[512];
    struct status status;
    assert_int_equal(status_client_subscribe(client, &id, 1, err, sizeof err), STATUS_CLIENT_OK);
    redis_server_kill(&server);
    assert_int_equal(status_client_take_event(client, event, err, sizeof err),
                     STATUS_CLIENT_UNREACHABLE);
    assert_int_equal(status_client_read(client, &id, 1, &status, err, sizeof err),
                     STATUS_CLIENT_UNREACHABLE);
    assert_non_null(strstr(err, server.url));
    redis_server_restart(&server);
    assert_int_equal(state_of(client, "a"), STATUS_UNKNOWN);
    assert_int_equal(status_client_subscribe(client, &id, 1, err, sizeof err), STATUS_CLIENT_OK);
    order("PUBLISH solfleet:events:{a} x");
    await_event(client, "a");
    status_client_close(client);
}

static void gives_up_on_a_server_that_hangs(void **state) {
    struct status_client *client = opened(100);
    const char *id = "a";
    struct status status;
    char err[512];
    redis_server_pause(&server);
    enum status_client_status got = status_client_read(client, &id, 1, &status, err, sizeof err);
    redis_server_resume(&server);
    assert_int_equal(got, STATUS_CLIENT_UNREACHABLE);
    assert_non_null(strstr(err, "no answer in time"));
    status_client_close(client);
}

static void counts_a_server_busy_with_a_script_as_away(void **state) {
    struct status_client *client = opened(5000);
    order("CONFIG SET busy-reply-threshold 1");
    redisContext *script = redisConnect("127.0.0.1", server.port);
    int sent = 0;
    redisAppendCommand(script, "EVAL %s 0", "while true do end");
    while (!sent) {
        assert_int_equal(redisBufferWrite(script, &sent), REDIS_OK);
    }
    const char *id = "a";
    struct status status;
    char err[512] = "";
    enum status_client_status got = STATUS_CLIENT_OK;
    while (got == STATUS_CLIENT_OK) { /* until the server has begun with the script */
        got = status_client_read(client, &id, 1, &status, err, sizeof err);
        if (got == STATUS_CLIENT_OK) {
            status_deinit(&status);
        }
    }
    assert_int_equal(got, STATUS_CLIENT_UNREACHABLE);
    assert_non_null(strstr(err, "BUSY"));
    order("SCRIPT KILL");
    void *reply = NULL; /* that it was killed: not before is the server free */
    assert_int_equal(redisGetReply(script, &reply), REDIS_OK);
    freeReplyObject(reply);
    redisFree(script);
    assert_int_equal(state_of(client, "absent"), STATUS_UNKNOWN);
    status_client_close(client);
}

static void logs_in_and_says_what_is_wrong_with_the_password(void **state) {
    char address[128], err[512];
    struct status_client *client = NULL;
    order("CONFIG SET requirepass s3cret");
    snprintf(address, sizeof address, "redis://:wrong@127.0.0.1:%d", server.port);
    assert_int_equal(status_client_open(address, "p:", 2000, &client, err, sizeof err),
                     STATUS_CLIENT_REFUSED);
    assert_non_null(strstr(err, "WRONGPASS"));
    assert_null(strstr(err, "wrong@"));
    snprintf(address, sizeof address, "redis://:s3cret@127.0.0.1:%d/2", server.port);
    assert_int_equal(status_client_open(address, "p:", 2000, &client, err, sizeof err),
                     STATUS_CLIENT_OK);
    const char *id = "a";
    bool created;
    assert_int_equal(status_client_queue(client, &id, 1, 1, 100, &created, err, sizeof err),
                     STATUS_CLIENT_OK);
    status_client_close(client);
    redisContext *link = redisConnect("127.0.0.1", server.port);
    freeReplyObject(redisCommand(link, "AUTH s3cret"));
    freeReplyObject(redisCommand(link, "SELECT 2"));
    redisReply *reply = redisCommand(link, "EXISTS p:job:{a}");
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    freeReplyObject(redisCommand(link, "CONFIG SET requirepass %s", ""));
    redisFree(link);
}

static void refuses_a_bad_address_and_a_long_prefix(void **state) {
    struct status_client *client = NULL;
    char err[512], prefix[200];
    memset(prefix, 'p', sizeof prefix);
    prefix[sizeof prefix - 1] = '\0';
    assert_int_equal(status_client_open("rediss://h", "p:", 100, &client, err, sizeof err),
                     STATUS_CLIENT_BAD_SETTING);
    assert_int_equal(status_client_open(server.url, prefix, 100, &client, err, sizeof err),
                     STATUS_CLIENT_BAD_SETTING);
    assert_null(client);
}

static enum status_client_renewed renewed(const char *id, const char *code, const char *fingerprint,
                                          const char *mark, enum status_state *left) {
    struct status_client *client = opened(5000);
    struct status_client_renewal renewal = {
        .id = id, .error_code = code, .fingerprint = fingerprint, .mark = mark};
    enum status_client_renewed said;
    char err[512] = "";
    assert_int_equal(status_client_renew(client, &renewal, 77, 100, &said, left, err, sizeof err),
                     STATUS_CLIENT_OK);
    status_client_close(client);
    return said;
}

static void renews_only_what_failed_by_that_record_and_code(void **state) {
    enum status_state left;
    order("HSET solfleet:job:{re} state failed error_code poison fingerprint f deaths 3 owner w/1");
    assert_int_equal(renewed("re", "numeric", "f", "0:1", &left), STATUS_CLIENT_HELD);
    assert_int_equal(left, STATUS_FAILED);
    assert_int_equal(renewed("re", "poison", "other", "0:1", &left), STATUS_CLIENT_HELD);
    assert_int_equal(renewed("re", "poison", "f", "0:1", &left), STATUS_CLIENT_RENEWED);
    assert_int_equal(order("HLEN solfleet:job:{re}"), 3);
    assert_int_equal(order("HEXISTS solfleet:job:{re} deaths"), 0);
    assert_in_range(order("TTL solfleet:job:{re}"), 1, 100);
    /* The same letter once more, as after a crash; another one finds it queued. */
    assert_int_equal(renewed("re", "poison", "f", "0:1", &left), STATUS_CLIENT_RENEWED);
    assert_int_equal(renewed("re", "poison", "f", "0:2", &left), STATUS_CLIENT_HELD);
    assert_int_equal(left, STATUS_QUEUED);
    order("HSET solfleet:job:{re} state running");
    assert_int_equal(renewed("re", "poison", "f", "0:1", &left), STATUS_CLIENT_HELD);
    assert_int_equal(left, STATUS_RUNNING);
}

static void renews_nothing_where_there_is_no_status(void **state) {
    enum status_state left;
    assert_int_equal(renewed("re-none", "poison", "f", "0:1", &left), STATUS_CLIENT_ABSENT);
    assert_int_equal(order("EXISTS solfleet:job:{re-none}"), 0);
    order("SET solfleet:job:{re-text} x");
    assert_int_equal(renewed("re-text", "poison", "f", "0:1", &left), STATUS_CLIENT_HELD);
    assert_int_equal(left, STATUS_UNKNOWN);
}

TEST_MAIN_WITH(start_server, stop_server,
               cmocka_unit_test(renews_only_what_failed_by_that_record_and_code),
               cmocka_unit_test(renews_nothing_where_there_is_no_status),
               cmocka_unit_test(writes_queued_with_a_life_and_only_where_nothing_stands),
               cmocka_unit_test(pipelines_more_ids_than_fit_one_round),
               cmocka_unit_test(gives_unknown_for_a_key_that_is_absent),
               cmocka_unit_test(sees_a_job_that_is_only_sealed_as_running),
               cmocka_unit_test(refuses_a_hash_that_is_no_status),
               cmocka_unit_test(hears_of_changes_of_the_ids_it_subscribed_to),
               cmocka_unit_test(comes_back_after_a_restart_of_the_server),
               cmocka_unit_test(gives_up_on_a_server_that_hangs),
               cmocka_unit_test(counts_a_server_busy_with_a_script_as_away),
               cmocka_unit_test(logs_in_and_says_what_is_wrong_with_the_password),
               cmocka_unit_test(refuses_a_bad_address_and_a_long_prefix))
