/* The private redis-server that other component tests lean on. */
#include "tests/support/redis_server.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "tests/support/test.h"

static redisContext *connect_to(const struct redis_server *server) {
    redisContext *link = redisConnect("127.0.0.1", server->port);
    assert_non_null(link);
    assert_int_equal(link->err, 0);
    return link;
}

static void assert_get(redisContext *link, const char *key, const char *expected) {
    redisReply *reply = redisCommand(link, "GET %s", key);
    assert_non_null(reply);
    if (expected == NULL) {
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    } else {
        assert_string_equal(reply->str, expected);
    }
    freeReplyObject(reply);
}

static void is_empty_after_a_crash_and_keeps_its_port(void **state) {
    struct redis_server server;
    redis_server_open(&server);
    int port = server.port;
    redisContext *link = connect_to(&server);
    freeReplyObject(redisCommand(link, "SET k v"));
    assert_get(link, "k", "v");
    redis_server_kill(&server);
    assert_null(redisCommand(link, "GET k"));
    redisFree(link);
    redis_server_restart(&server);
    assert_int_equal(server.port, port);
    link = connect_to(&server);
    assert_get(link, "k", NULL);
    redisFree(link);
    redis_server_close(&server);
    redis_server_close(&server);
}

static void does_not_answer_while_paused(void **state) {
    struct redis_server server;
    redis_server_open(&server);
    redisContext *link = connect_to(&server);
    redisSetTimeout(link, (struct timeval){.tv_usec = 50000});
    redis_server_pause(&server);
    assert_null(redisCommand(link, "PING"));
    redisFree(link);
    redis_server_resume(&server);
    link = connect_to(&server);
    assert_get(link, "k", NULL);
    redisFree(link);
    redis_server_close(&server);
}

TEST_MAIN(cmocka_unit_test(is_empty_after_a_crash_and_keeps_its_port),
          cmocka_unit_test(does_not_answer_while_paused))
