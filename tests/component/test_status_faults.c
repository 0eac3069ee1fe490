/* The status store on a server that is away, slow, full, read-only, busy, or no Redis at all. */
#include "consumer/status_store.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/clock.h"
#include "engine/log.h"
#include "tests/support/status_rig.h"
#include "tests/support/test.h"

#define CLAIM_TIMEOUT_MS 20

static struct status_store_finish done(const char *id) {
    return status_rig_end(id, "f", STATUS_DONE, "{}");
}

/* Turns until the condition holds. */
#define WAIT_FOR(condition)                                                    \
    do {                                                                       \
        int64_t end_ns_ = clock_monotonic_ns(NULL) + 10 * INT64_C(1000000000); \
        while (!(condition)) {                                                 \
            assert_true(clock_monotonic_ns(NULL) < end_ns_);                   \
            status_rig_turn();                                                 \
        }                                                                      \
    } while (0)

static void hasten(int64_t link_timeout_ms) {
    struct status_store_options hasty = status_rig_options();
    hasty.claim_timeout_ms = CLAIM_TIMEOUT_MS;
    hasty.link_timeout_ms = link_timeout_ms;
    status_rig_reopen(&hasty);
}

/* ---- what the store says in the log ---- */

static int said[2];
static struct log said_log;

static void listen_to_the_log(struct status_store_options *options) {
    assert_int_equal(pipe2(said, O_NONBLOCK), 0);
    log_init(&said_log, said[1], LOG_LEVEL_WARN, NULL);
    options->log = &said_log;
}

/* All that was said since the last look. */
static const char *what_was_said(void) {
    static char text[16384];
    ssize_t size = read(said[0], text, sizeof text - 1);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

static int times(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) {
        count++;
    }
    return count;
}

static void close_the_log(void) {
    status_store_close(status_rig.store);
    status_rig.store = NULL;
    close(said[0]);
    close(said[1]);
}

/* ---- away ---- */

static void serves_on_with_the_server_away_and_replays_when_it_is_back(void **state) {
    struct status_store_finish end = done("away");
    status_rig_claim("away", "f", 1);
    status_rig_kill_server();
    struct status_store_answer answer = status_rig_claim("away2", "f", 1);
    assert_false(answer.reached);
    assert_int_equal(answer.claimed, STATUS_STORE_NEW);
    assert_false(status_rig_seal(&end).reached);
    assert_false(status_rig_finish(&end).reached);
    assert_int_equal(status_rig_stats().backlog_count, 1);
    assert_int_equal(status_rig_stats().seals_unanswered, 1);
    status_rig_restart_server();
    status_rig_wait_replayed();
    status_rig_assert_claimed(status_rig_claim("away", "f", 1), STATUS_STORE_DONE, 0);
    status_rig_assert_field("away", "state", "done");
    status_rig_assert_field("away", "result", "{}");
    assert_int_equal(status_rig_stats().links_total, 2);
}

static void gives_the_result_to_a_server_that_lost_the_seal(void **state) {
    struct status_store_finish end = done("emptied");
    status_rig_claim("emptied", "f", 1);
    assert_true(status_rig_seal(&end).reached);
    status_rig_kill_server();
    end.is_sealed = true;
    assert_false(status_rig_finish(&end).reached);
    status_rig_restart_server();
    status_rig_wait_replayed();
    status_rig_settle();
    status_rig_assert_field("emptied", "state", "done");
    status_rig_assert_field("emptied", "result", "{}");
}

static void answers_what_was_under_way_when_the_server_fell(void **state) {
    struct status_store_answer answers[3];
    struct status_store_finish end = done("fell2");
    redis_server_pause(&status_rig.server);
    status_rig_queue_claim(1, "fell", "f", 1);
    status_store_finish(status_rig.store, 2, &end);
    status_store_seal(status_rig.store, 3, &end);
    status_store_renew(status_rig.store, 4, "fell", 1);
    status_store_flush(status_rig.store);
    status_rig_turn();
    redis_server_kill(&status_rig.server);
    status_rig_answers(answers, 3);
    for (int i = 0; i < 3; i++) {
        assert_false(answers[i].reached);
        assert_int_not_equal(answers[i].ticket, 4);
    }
    assert_int_equal(status_rig_stats().backlog_count, 1);
    status_rig_restart_server();
}

static void keeps_a_release_for_a_server_that_is_away(void **state) {
    hasten(50);
    status_rig_claim("kept", "f", 1);
    redis_server_pause(&status_rig.server);
    status_store_release(status_rig.store, "kept", 1);
    status_store_flush(status_rig.store);
    WAIT_FOR(!status_rig_stats().is_up);
    assert_int_equal(status_rig_stats().backlog_count, 1);
    redis_server_resume(&status_rig.server);
    status_rig_wait_replayed();
    status_rig_settle();
    status_rig_assert_field("kept", "owner", NULL);
}

static void drops_the_oldest_of_its_backlog_beyond_its_bound(void **state) {
    static struct status_store_answer answers[300];
    struct status_store_options small = status_rig_options();
    small.backlog_max = 150;
    status_rig_reopen(&small);
    status_rig_kill_server();
    for (uint64_t i = 0; i < 300; i++) {
        char id[32];
        snprintf(id, sizeof id, "drop-%u", (unsigned)i);
        struct status_store_finish end = done(id);
        status_store_finish(status_rig.store, i, &end);
    }
    status_rig_answers(answers, 300);
    struct status_store_stats now = status_rig_stats();
    assert_in_range(now.backlog_count, 1, 150);
    assert_int_equal(now.dropped_total + now.backlog_count, 300);
    status_rig_restart_server();
    status_rig_wait_replayed();
    status_rig_settle();
    status_rig_assert_field("drop-299", "state", "done");
    status_rig_assert_field("drop-0", "state", NULL);
}

/* ---- slow ---- */

static void counts_a_claim_without_an_answer_in_time_as_new(void **state) {
    struct status_store_finish end = done("hung");
    hasten(300);
    redis_server_pause(&status_rig.server);
    struct status_store_answer answer = status_rig_claim("hung", "f", 1);
    assert_false(answer.reached);
    assert_int_equal(answer.claimed, STATUS_STORE_NEW);
    assert_true(status_rig_stats().is_up); /* slow is not yet away */
    assert_int_equal(status_rig_stats().claims_unanswered, 1);
    assert_false(status_rig_finish(&end).reached);
    assert_false(status_rig_stats().is_up);
    redis_server_resume(&status_rig.server);
    status_rig_wait_replayed();
    status_rig_assert_claimed(status_rig_claim("hung", "f", 1), STATUS_STORE_DONE, 0);
}

static void asks_no_more_after_two_claims_unanswered_but_for_a_probe(void **state) {
    hasten(5000);
    redis_server_pause(&status_rig.server);
    assert_false(status_rig_claim("slow-1", "f", 1).reached);
    assert_int_equal(status_rig_stats().breaker_opened_total, 0);
    assert_false(status_rig_claim("slow-2", "f", 1).reached);
    assert_int_equal(status_rig_stats().breaker_opened_total, 1);
    struct status_store_answer answer;
    status_rig_queue_claim(9, "slow-3", "f", 1);
    status_store_flush(status_rig.store);
    assert_true(status_store_take(status_rig.store, &answer)); /* at once */
    assert_false(answer.reached);
    redis_server_resume(&status_rig.server);
    WAIT_FOR(status_rig_stats().late_answers == 2);
    for (int late = 0; late < 2; late++) {
        assert_true(status_store_take(status_rig.store, &answer));
        assert_true(answer.is_late);
    }
    for (int tries = 0;; tries++) { /* until the pause is over */
        char id[32];
        snprintf(id, sizeof id, "probe-%d", tries);
        if (status_rig_claim(id, "f", 1).reached) {
            break;
        }
        status_rig_assert_field(id, "state", NULL);
        status_rig_turn();
    }
    assert_true(status_rig_claim("slow-4", "f", 1).reached);
    assert_int_equal(status_rig_stats().breaker_opened_total, 1);
    status_rig_assert_field("slow-3", "state", NULL); /* it was never asked for */
}

static void tells_late_what_may_stop_a_job(void **state) {
    static const char *const ids[] = {"l-done", "l-conflict", "l-sealed", "l-new", "l-here"};
    struct status_store_finish end = done("l-done"), sealed = done("l-sealed");
    struct status_store_answer answers[10];
    status_rig_finish(&end);
    status_rig_seal(&sealed);
    status_rig_claim("l-conflict", "other", 1);
    status_rig_claim("l-here", "f", 2);
    hasten(5000);
    status_rig_order("HSET solfleet:job:{l-here} owner w1/a claim 0:2:1");
    redis_server_pause(&status_rig.server);
    for (uint64_t i = 0; i < 5; i++) {
        status_rig_queue_claim(i, ids[i], "f", 1);
    }
    status_rig_answers(answers, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(answers[i].claimed, STATUS_STORE_NEW);
        assert_false(answers[i].reached || answers[i].is_late);
    }
    redis_server_resume(&status_rig.server);
    WAIT_FOR(status_rig_stats().late_answers == 5);
    static const enum status_store_claimed expected[] = {STATUS_STORE_DONE, STATUS_STORE_CONFLICT,
                                                         STATUS_STORE_SEALED, STATUS_STORE_NEW};
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(status_store_take(status_rig.store, &answers[i]));
        assert_true(answers[i].is_late && answers[i].reached);
        assert_int_equal(answers[i].ticket, i);
        assert_int_equal(answers[i].claimed, expected[i]);
        if (answers[i].claimed == STATUS_STORE_SEALED) {
            assert_string_equal(answers[i].sealed->result, "{}");
        }
    }
    assert_int_equal(answers[3].attempt, 1);
    assert_false(status_store_take(status_rig.store, &answers[4])); /* HERE: nothing to stop */
}

/* ---- refusing ---- */

/* The server refuses: everything counts as away, said once; when it writes again, all is caught up
 * with. */
static void is_away_while_refused(void (*begin)(void), void (*end)(void), const char *code) {
    struct status_store_options options = status_rig_options();
    listen_to_the_log(&options);
    status_rig_reopen(&options);
    struct status_store_finish finish = done("refused");
    assert_true(status_rig_claim("refused", "f", 1).reached);
    what_was_said();
    begin();
    assert_false(status_rig_claim("refused-2", "f", 1).reached);
    assert_false(status_rig_stats().is_up);
    assert_false(status_rig_seal(&finish).reached);
    assert_false(status_rig_finish(&finish).reached);
    assert_int_equal(status_rig_stats().backlog_count, 1);
    WAIT_FOR(status_rig_stats().refused_total >= 3); /* it goes on trying */
    const char *text = what_was_said();
    assert_int_equal(times(text, "redis.refuses"), 1);
    assert_non_null(strstr(text, code));
    end();
    status_rig_wait_replayed();
    assert_true(status_rig_claim("refused-3", "f", 1).reached);
    status_rig_assert_field("refused", "state", "done");
    assert_int_equal(status_rig_stats().links_total, 1); /* and the connection stood all the time */
    status_rig_order(
        "DEL solfleet:job:{refused} solfleet:job:{refused-2} solfleet:job:{refused-3}");
    close_the_log();
}

static void fill_the_server(void) {
    status_rig_order("CONFIG SET maxmemory 1");
}

static void empty_the_server(void) {
    status_rig_order("CONFIG SET maxmemory 0");
}

static void is_away_while_the_server_is_out_of_memory(void **state) {
    is_away_while_refused(fill_the_server, empty_the_server, "OOM");
}

static void make_a_replica(void) {
    status_rig_order("REPLICAOF 127.0.0.1 1");
}

static void make_a_master(void) {
    status_rig_order("REPLICAOF NO ONE");
}

static void is_away_while_the_server_is_read_only(void **state) {
    is_away_while_refused(make_a_replica, make_a_master, "READONLY");
}

static void make_a_stale_replica(void) {
    status_rig_order("CONFIG SET replica-serve-stale-data no");
    make_a_replica();
}

static void is_away_while_the_server_is_a_replica_without_its_master(void **state) {
    is_away_while_refused(make_a_stale_replica, make_a_master, "MASTERDOWN");
    status_rig_order("CONFIG SET replica-serve-stale-data yes");
}

static redisContext *hog;

static void begin_an_endless_script(void) {
    status_rig_order("CONFIG SET lua-time-limit 1");
    hog = redisConnect("127.0.0.1", status_rig.server.port);
    int is_written = 0;
    redisAppendCommand(hog, "EVAL %s 0", "while true do end");
    while (!is_written) {
        assert_int_equal(redisBufferWrite(hog, &is_written), REDIS_OK);
    }
    for (bool is_busy = false; !is_busy;) {
        redisReply *reply = redisCommand(status_rig.direct, "PING");
        is_busy = strncmp(reply->str, "BUSY", 4) == 0;
        freeReplyObject(reply);
    }
}

static void kill_the_endless_script(void) {
    status_rig_order("SCRIPT KILL");
    redisFree(hog);
}

static void is_away_while_another_script_holds_the_server(void **state) {
    is_away_while_refused(begin_an_endless_script, kill_the_endless_script, "BUSY");
}

static void replays_its_backlog_in_order_however_often_it_was_refused(void **state) {
    enum { COUNT = 20 }; /* more than are replayed at a time */
    redisContext *listener = redisConnect("127.0.0.1", status_rig.server.port);
    freeReplyObject(redisCommand(listener, "PSUBSCRIBE solfleet:events:{order-*"));
    fill_the_server();
    for (int i = 0; i < COUNT; i++) {
        char id[32];
        snprintf(id, sizeof id, "order-%02d", i);
        struct status_store_finish end = done(id);
        assert_false(status_rig_finish(&end).reached);
    }
    WAIT_FOR(status_rig_stats().refused_total >= 3);
    assert_int_equal(status_rig_stats().backlog_count, COUNT);
    empty_the_server();
    status_rig_wait_replayed();
    for (int i = 0; i < COUNT; i++) {
        char channel[64];
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
        snprintf(channel, sizeof channel, "solfleet:events:{order-%02d}", i);
        assert_string_equal(reply->element[2]->str, channel);
        freeReplyObject(reply);
    }
    redisFree(listener);
}

static void loads_the_scripts_again_when_the_server_lost_them(void **state) {
    struct status_store_finish end = done("scripts");
    status_rig_claim("scripts", "f", 1);
    status_rig_order("SCRIPT FLUSH");
    status_rig_assert_claimed(status_rig_claim("scripts", "f", 1), STATUS_STORE_NEW, 1);
    status_rig_order("SCRIPT FLUSH");
    assert_true(status_rig_finish(&end).reached);
    assert_int_equal(status_rig_stats().links_total, 1);
    assert_int_equal(status_rig_stats().refused_total, 0);
}

/* ---- who it is ---- */

static void logs_in_and_selects_its_database(void **state) {
    char address[128];
    struct status_store_options with = status_rig_options();
    status_rig_order("CONFIG SET requirepass s3cret");
    snprintf(address, sizeof address, "redis://:s3cret@127.0.0.1:%d/2", status_rig.server.port);
    with.address = address;
    status_rig_reopen(&with);
    status_rig_assert_claimed(status_rig_claim("inside", "f", 1), STATUS_STORE_NEW, 1);
    status_rig_assert_field("inside", "state", NULL);
    status_rig_order("SELECT 2");
    status_rig_assert_field("inside", "state", "queued");
    freeReplyObject(redisCommand(status_rig.direct, "CONFIG SET requirepass %s", ""));
}

static void says_once_that_it_was_not_let_in(void **state) {
    char address[128];
    struct status_store_options with = status_rig_options();
    status_rig_order("CONFIG SET requirepass s3cret");
    status_store_close(status_rig.store);
    snprintf(address, sizeof address, "redis://:wrong@127.0.0.1:%d", status_rig.server.port);
    with.address = address;
    listen_to_the_log(&with);
    char err[256];
    assert_true(status_store_open(&with, &status_rig.store, err, sizeof err));
    assert_false(status_rig_claim("outside", "f", 1).reached);
    for (int64_t end_ns = clock_monotonic_ns(NULL) + 300000000;
         clock_monotonic_ns(NULL) < end_ns;) {
        status_rig_turn(); /* it tries again, and again */
    }
    const char *text = what_was_said();
    assert_int_equal(times(text, "WRONGPASS"), 1);
    assert_non_null(strstr(text, "give redis://user:password@host:port"));
    assert_null(strstr(text, "wrong@"));
    close_the_log();
    freeReplyObject(redisCommand(status_rig.direct, "CONFIG SET requirepass %s", ""));
}

static void warns_of_a_server_that_evicts(void **state) {
    struct status_store_options options = status_rig_options();
    listen_to_the_log(&options);
    status_rig_reopen(&options);
    assert_string_equal(what_was_said(), "");
    assert_string_equal(status_rig_stats().eviction, "noeviction");
    status_rig_order("CONFIG SET maxmemory-policy allkeys-lru");
    status_rig_reopen(&options);
    assert_non_null(strstr(what_was_said(), "set maxmemory-policy noeviction"));
    assert_string_equal(status_rig_stats().eviction, "allkeys-lru");
    assert_false(status_rig_stats().is_eviction_harmless);
    status_rig_order("CONFIG SET maxmemory-policy noeviction");
    close_the_log();
}

/* ---- servers that are none ---- */

/* Greets as Redis does, save that INFO is refused, and gives `answer` to every script call. */
static pid_t start_odd_server(int listener, const char *answer) {
    static const char digest[] = "$40\r\n0123456789012345678901234567890123456789\r\n";
    static const char refusal[] = "-NOPERM no permissions to run the 'info' command\r\n";
    pid_t child = fork();
    assert_true(child >= 0);
    if (child != 0) {
        return child;
    }
    for (;;) {
        int link = accept(listener, NULL, NULL);
        char bytes[32768];
        for (ssize_t size; (size = read(link, bytes, sizeof bytes)) > 0;) {
            for (ssize_t i = 0; i + 8 < size; i++) {
                if (memcmp(bytes + i, "\r\nINFO\r\n", 8) == 0) {
                    (void)!write(link, refusal, sizeof refusal - 1);
                } else if (memcmp(bytes + i, "\r\nLOAD\r\n", 8) == 0) {
                    (void)!write(link, digest, sizeof digest - 1);
                } else if (memcmp(bytes + i, "\r\nEVALSHA", 9) == 0) {
                    (void)!write(link, answer, strlen(answer));
                }
            }
        }
        close(link);
    }
}

/* What is said while such a server answers a claim and a seal: neither is reached. */
static const char *meet_an_odd_server(const char *answer) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t name_bytes = sizeof name;
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(listener, 4), 0);
    getsockname(listener, (struct sockaddr *)&name, &name_bytes);
    pid_t odd = start_odd_server(listener, answer);
    close(listener);

    char address[64];
    struct status_store_options options = status_rig_options();
    struct status_store_finish end = done("odd");
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(name.sin_port));
    options.address = address;
    options.link_timeout_ms = 300; /* for answers that do not end */
    listen_to_the_log(&options);
    status_rig_reopen(&options);
    assert_false(status_rig_claim("odd", "f", 1).reached);
    assert_false(status_rig_seal(&end).reached);
    const char *text = what_was_said();
    kill(odd, SIGKILL);
    waitpid(odd, NULL, 0);
    close_the_log();
    return text;
}

static void says_that_a_cluster_is_not_supported(void **state) {
    const char *text = meet_an_odd_server("-MOVED 1234 127.0.0.1:1\r\n");
    assert_non_null(strstr(text, "MOVED"));
    assert_non_null(strstr(text, "Redis Cluster is not supported"));
    assert_non_null(strstr(text, "does not tell its maxmemory-policy"));
}

static void takes_loading_for_away(void **state) {
    const char *text = meet_an_odd_server("-LOADING Redis is loading the dataset in memory\r\n");
    assert_non_null(strstr(text, "LOADING"));
}

static void gives_up_a_connection_that_answers_what_cannot_be(void **state) {
    static const char *const answers[] = {
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n:1\r\n",
        "*1\r\n$1\r\n1\r\n",
        "*1\r\n:-4\r\n",
        "*1\r\n:-77\r\n",
        "*1\r\n:9223372036854775807\r\n",
        "*1\r\n*0\r\n",
        "*1\r\n*1\r\n:-5\r\n",
        "*1\r\n*3\r\n:-8\r\n:-1\r\n:0\r\n",
        "*1\r\n*2\r\n:-8\r\n$3\r\n100\r\n",
        "*1\r\n*4\r\n:-6\r\n:1\r\n:-3\r\n:0\r\n",
        "*1\r\n*4\r\n:-5\r\n:1\r\n:0\r\n:0\r\n",
        "*1\r\n*5\r\n:-5\r\n:1\r\n:0\r\n:0\r\n$7\r\nrunning\r\n",
        "*1\r\n*2\r\n:-5\r\n$4\r\ndone\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "*1000000\r\n",
        "HTTP/1.1 400 Bad Request\r\n"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        const char *text = meet_an_odd_server(answers[i]);
        if (strstr(text, "redis.away") == NULL) {
            fail_msg("answer %u was taken: %s", (unsigned)i, text);
        }
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, status_rig_start, status_rig_stop)
TEST_MAIN_WITH(NULL, status_rig_stop_server,
               CASE(serves_on_with_the_server_away_and_replays_when_it_is_back),
               CASE(gives_the_result_to_a_server_that_lost_the_seal),
               CASE(answers_what_was_under_way_when_the_server_fell),
               CASE(keeps_a_release_for_a_server_that_is_away),
               CASE(drops_the_oldest_of_its_backlog_beyond_its_bound),
               CASE(counts_a_claim_without_an_answer_in_time_as_new),
               CASE(asks_no_more_after_two_claims_unanswered_but_for_a_probe),
               CASE(tells_late_what_may_stop_a_job),
               CASE(is_away_while_the_server_is_out_of_memory),
               CASE(is_away_while_the_server_is_read_only),
               CASE(is_away_while_the_server_is_a_replica_without_its_master),
               CASE(is_away_while_another_script_holds_the_server),
               CASE(replays_its_backlog_in_order_however_often_it_was_refused),
               CASE(loads_the_scripts_again_when_the_server_lost_them),
               CASE(logs_in_and_selects_its_database), CASE(says_once_that_it_was_not_let_in),
               CASE(warns_of_a_server_that_evicts), CASE(says_that_a_cluster_is_not_supported),
               CASE(takes_loading_for_away),
               CASE(gives_up_a_connection_that_answers_what_cannot_be))
