/* The status store and its scripts against a real redis-server. */
#include "consumer/status_store.h"

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
#include "tests/support/redis_server.h"
#include "tests/support/test.h"

#define WAIT_MS_MAX 10000
#define ANSWERS_MAX 1024

static struct redis_server server;
static struct status_store *store;
static redisContext *direct; /* to look at what the store did */

static struct status_store_options options(void) {
    return (struct status_store_options){.address = server.url,
                                         .prefix = "solfleet:",
                                         .worker = "w1",
                                         .ttl_s = 100,
                                         .claim_timeout_ms = 2000,
                                         .link_timeout_ms = 5000,
                                         .backlog_max = 1000};
}

/* One turn of what the worker's loop does. */
static void turn(void) {
    struct pollfd watch = status_store_pollfd(store);
    poll(&watch, 1, 1);
    status_store_handle(store, watch.revents);
}

static int64_t now_ms(void) {
    return clock_monotonic_ns(NULL) / CLOCK_NS_PER_MS;
}

static struct status_store_stats stats(void) {
    struct status_store_stats now;
    status_store_stats(store, &now);
    return now;
}

static void open_store(const struct status_store_options *with) {
    char err[256];
    assert_true(status_store_open(with, &store, err, sizeof err));
    for (int64_t end = now_ms() + WAIT_MS_MAX; !stats().is_up;) {
        assert_true(now_ms() < end);
        turn();
    }
}

static void wait_for_answers(struct status_store_answer *answers, uint32_t count) {
    status_store_flush(store);
    uint32_t taken = 0;
    for (int64_t end = now_ms() + WAIT_MS_MAX; taken < count;) {
        assert_true(now_ms() < end);
        while (taken < count && status_store_take(store, &answers[taken])) {
            taken++;
        }
        if (taken < count) {
            turn();
        }
    }
    assert_false(status_store_take(store, &answers[count - 1]));
}

static void queue_claim(uint64_t ticket, const char *id, const char *fingerprint,
                        bool only_queued) {
    struct status_store_claim claim = {.request_id = id,
                                       .fingerprint = fingerprint,
                                       .queued_unix_ms = 1234,
                                       .only_if_queued = only_queued};
    status_store_claim(store, ticket, &claim);
}

static struct status_store_answer claim(const char *id, const char *fingerprint) {
    struct status_store_answer answer;
    queue_claim(9, id, fingerprint, false);
    wait_for_answers(&answer, 1);
    assert_int_equal(answer.kind, STATUS_STORE_CLAIM);
    assert_int_equal(answer.ticket, 9);
    return answer;
}

static void queue_finish(uint64_t ticket, const char *id, const char *fingerprint,
                         enum status_state state) {
    struct status_store_finish finish = {.request_id = id,
                                         .fingerprint = fingerprint,
                                         .state = state,
                                         .finished_unix_ms = 5678,
                                         .prompt_tokens = 3,
                                         .completion_tokens = 4,
                                         .result_topic = "results",
                                         .result_partition = 0,
                                         .result_offset = 0,
                                         .result = "{}",
                                         .result_bytes = 2};
    status_store_finish(store, ticket, &finish);
}

static struct status_store_answer finish(const char *id, const char *fingerprint,
                                         enum status_state state) {
    struct status_store_answer answer;
    queue_finish(8, id, fingerprint, state);
    wait_for_answers(&answer, 1);
    assert_int_equal(answer.kind, STATUS_STORE_FINISH);
    return answer;
}

static void advance(const char *id, uint32_t attempt, const char *text) {
    struct status_store_advance progress = {.request_id = id,
                                            .attempt = attempt,
                                            .started_unix_ms = 2000,
                                            .prompt_tokens = 3,
                                            .completion_tokens = 1,
                                            .text = text};
    status_store_advance(store, &progress);
}

static redisReply *ask(const char *command, const char *key, const char *more) {
    redisReply *reply = more != NULL ? redisCommand(direct, "%s %s %s", command, key, more)
                                     : redisCommand(direct, "%s %s", command, key);
    assert_non_null(reply);
    return reply;
}

static void assert_field(const char *id, const char *field, const char *expected) {
    char key[256];
    assert_true(status_key(key, sizeof key, "solfleet:", id));
    redisReply *reply = ask("HGET", key, field);
    if (expected == NULL) {
        assert_int_equal(reply->type, REDIS_REPLY_NIL);
    } else {
        assert_int_equal(reply->type, REDIS_REPLY_STRING);
        assert_string_equal(reply->str, expected);
    }
    freeReplyObject(reply);
}

static void assert_claimed(struct status_store_answer answer, enum status_store_claimed claimed,
                           uint32_t attempt) {
    assert_true(answer.reached);
    assert_int_equal(answer.claimed, claimed);
    assert_int_equal(answer.attempt, attempt);
}

/* ---- one server, all well ---- */

static void numbers_the_attempts_of_a_new_id(void **state) {
    assert_claimed(claim("new", "f1"), STATUS_STORE_NEW, 1);
    assert_field("new", "state", "queued");
    assert_field("new", "queued_at", "1234");
    assert_field("new", "worker", "w1");
    assert_claimed(claim("new", "f1"), STATUS_STORE_NEW, 2);
}

static void tells_a_finished_record_from_another_with_its_id(void **state) {
    claim("dup", "f1");
    assert_claimed(claim("dup", "f2"), STATUS_STORE_CONFLICT, 0);
    assert_true(finish("dup", "f1", STATUS_DONE).reached);
    assert_claimed(claim("dup", "f1"), STATUS_STORE_DONE, 0);
    assert_claimed(claim("dup", "f2"), STATUS_STORE_CONFLICT, 0);
    assert_field("dup", "state", "done");
    assert_field("dup", "result", "{}");
    assert_field("dup", "result_offset", "0");
}

static void claims_an_id_only_if_it_is_queued_when_asked_so(void **state) {
    struct status_store_answer answers[2];
    freeReplyObject(redisCommand(direct, "HSET solfleet:job:{q1} state queued queued_at 7"));
    queue_claim(1, "q1", "f", true);
    queue_claim(2, "q2", "f", true);
    wait_for_answers(answers, 2);
    assert_claimed(answers[0], STATUS_STORE_NEW, 1);
    assert_claimed(answers[1], STATUS_STORE_NONE, 0);
    assert_field("q1", "queued_at", "7");
    assert_field("q2", "state", NULL);
}

static void treats_each_key_alone(void **state) {
    struct status_store_answer answers[3];
    freeReplyObject(redisCommand(direct, "SET solfleet:job:{odd} string"));
    queue_claim(1, "even1", "f", false);
    queue_claim(2, "odd", "f", false);
    queue_claim(3, "even2", "f", false);
    wait_for_answers(answers, 3);
    assert_claimed(answers[0], STATUS_STORE_NEW, 1);
    assert_claimed(answers[1], STATUS_STORE_NONE, 0);
    assert_claimed(answers[2], STATUS_STORE_NEW, 1);
    queue_finish(1, "even1", "f", STATUS_DONE);
    queue_finish(2, "odd", "f", STATUS_DONE);
    queue_finish(3, "even2", "f", STATUS_FAILED);
    wait_for_answers(answers, 3);
    assert_field("even1", "state", "done");
    assert_field("even2", "state", "failed");
}

static void answers_more_keys_than_one_command_holds(void **state) {
    static struct status_store_answer answers[ANSWERS_MAX];
    for (uint64_t i = 0; i < ANSWERS_MAX; i++) {
        char id[32];
        snprintf(id, sizeof id, "many-%u", (unsigned)i);
        queue_claim(i, id, "f", false);
    }
    wait_for_answers(answers, ANSWERS_MAX);
    for (uint64_t i = 0; i < ANSWERS_MAX; i++) {
        assert_int_equal(answers[i].ticket, i);
        assert_claimed(answers[i], STATUS_STORE_NEW, 1);
    }
}

static void never_takes_a_terminal_state_back(void **state) {
    claim("end", "f");
    finish("end", "f", STATUS_DONE);
    advance("end", 1, "late");
    assert_true(finish("end", "f", STATUS_FAILED).reached);
    assert_field("end", "state", "done");
    assert_field("end", "text", NULL);
}

static void takes_progress_from_the_current_attempt_only(void **state) {
    claim("step", "f");
    claim("step", "f");
    advance("step", 1, "old");
    claim("other", "f"); /* an answer that comes behind the progress */
    assert_field("step", "state", "queued");
    advance("step", 2, "new");
    claim("other", "f");
    assert_field("step", "state", "running");
    assert_field("step", "text", "new");
    assert_field("step", "started_at", "2000");
    assert_field("step", "completion_tokens", "1");
}

static void lets_a_status_live_for_its_time(void **state) {
    claim("ttl", "f");
    redisReply *reply = ask("TTL", "solfleet:job:{ttl}", NULL);
    assert_in_range(reply->integer, 90, 100);
    freeReplyObject(reply);
}

static void publishes_each_change(void **state) {
    redisContext *listener = redisConnect("127.0.0.1", server.port);
    freeReplyObject(redisCommand(listener, "SUBSCRIBE solfleet:events:{told}"));
    claim("told", "f");
    advance("told", 1, NULL);
    finish("told", "f", STATUS_DONE);
    static const char *const expected[] = {"queued", "running", "done"};
    for (size_t i = 0; i < 3; i++) {
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
        assert_string_equal(reply->element[2]->str, expected[i]);
        freeReplyObject(reply);
    }
    redisFree(listener);
}

static void loads_the_scripts_again_when_the_server_lost_them(void **state) {
    claim("lost", "f");
    freeReplyObject(redisCommand(direct, "SCRIPT FLUSH"));
    assert_claimed(claim("lost", "f"), STATUS_STORE_NEW, 2);
    assert_true(finish("lost", "f", STATUS_DONE).reached);
    assert_int_equal(stats().links_total, 1);
}

/* The obvious version of the scripts. */
struct model {
    enum status_state state;
    char fingerprint; /* 0 = none */
    uint32_t attempt;
};

static struct status_store_answer model_claim(struct model *model, char fingerprint) {
    struct status_store_answer answer = {.claimed = STATUS_STORE_NEW, .reached = true};
    if (model->fingerprint != 0 && model->fingerprint != fingerprint) {
        answer.claimed = STATUS_STORE_CONFLICT;
    } else if (status_state_is_terminal(model->state)) {
        answer.claimed = STATUS_STORE_DONE;
    } else {
        model->state = model->state == STATUS_UNKNOWN ? STATUS_QUEUED : model->state;
        model->fingerprint = fingerprint;
        answer.attempt = ++model->attempt;
    }
    return answer;
}

static void model_advance(struct model *model, uint32_t attempt) {
    bool current = attempt == 0 || model->attempt == 0 || attempt == model->attempt;
    if (!status_state_is_terminal(model->state) && current) {
        model->state = STATUS_RUNNING;
    }
}

static void model_finish(struct model *model, char fingerprint, enum status_state state) {
    if (!status_state_is_terminal(model->state)) {
        model->state = state;
        model->fingerprint = fingerprint;
    }
}

static void assert_like_model(const char *id, const struct model *model) {
    char attempt[16];
    snprintf(attempt, sizeof attempt, "%u", model->attempt);
    assert_field(id, "state",
                 model->state == STATUS_UNKNOWN ? NULL : status_state_name(model->state));
    assert_field(id, "fingerprint",
                 model->fingerprint == 0 ? NULL : (char[]){model->fingerprint, '\0'});
    assert_field(id, "attempt", model->attempt == 0 ? NULL : attempt);
}

static void agrees_with_the_obvious_version_under_random_sequences(void **state) {
    uint64_t seed = test_seed();
    for (int round = 0; round < 150; round++) {
        char id[32];
        struct model model = {.state = STATUS_UNKNOWN};
        snprintf(id, sizeof id, "random-%d", round);
        for (int step = 0; step < 8; step++) {
            char fingerprint = test_random(&seed) % 4 == 0 ? 'b' : 'a';
            char print[] = {fingerprint, '\0'};
            uint32_t attempt = (uint32_t)(test_random(&seed) % 3);
            enum status_state end = (enum status_state)(STATUS_DONE + test_random(&seed) % 4);
            switch (test_random(&seed) % 3) {
            case 0: {
                struct status_store_answer expected = model_claim(&model, fingerprint);
                assert_claimed(claim(id, print), expected.claimed, expected.attempt);
                break;
            }
            case 1:
                advance(id, attempt, NULL);
                model_advance(&model, attempt);
                claim("barrier", "f");
                break;
            default:
                if (step >= 4) {
                    finish(id, print, end);
                    model_finish(&model, fingerprint, end);
                }
            }
            assert_like_model(id, &model);
        }
    }
}

/* ---- a server that goes away ---- */

static void serves_on_with_the_server_away_and_replays_when_it_is_back(void **state) {
    claim("away", "f");
    redis_server_kill(&server);
    while (stats().is_up) {
        turn();
    }
    struct status_store_answer answer = claim("away2", "f");
    assert_false(answer.reached);
    assert_int_equal(answer.claimed, STATUS_STORE_NEW);
    assert_false(finish("away", "f", STATUS_DONE).reached);
    assert_int_equal(stats().backlog_count, 1);
    redis_server_restart(&server);
    redisFree(direct);
    direct = redisConnect("127.0.0.1", server.port);
    for (int64_t end = now_ms() + WAIT_MS_MAX; !stats().is_up || stats().backlog_count > 0;) {
        assert_true(now_ms() < end);
        turn();
    }
    assert_claimed(claim("away", "f"), STATUS_STORE_DONE, 0); /* behind the replay */
    assert_field("away", "state", "done");
    assert_int_equal(stats().links_total, 2);
}

static void answers_what_was_under_way_when_the_server_fell(void **state) {
    struct status_store_answer answers[2];
    redis_server_pause(&server);
    queue_claim(1, "fell", "f", false);
    queue_finish(2, "fell2", "f", STATUS_DONE);
    status_store_flush(store);
    turn();
    redis_server_kill(&server);
    wait_for_answers(answers, 2);
    assert_false(answers[0].reached);
    assert_false(answers[1].reached);
    assert_int_equal(stats().backlog_count, 1);
    redis_server_restart(&server);
    redisFree(direct);
    direct = redisConnect("127.0.0.1", server.port);
}

static void counts_a_claim_without_an_answer_in_time_as_new(void **state) {
    status_store_close(store);
    struct status_store_options hasty = options();
    hasty.claim_timeout_ms = 20;
    hasty.link_timeout_ms = 300;
    open_store(&hasty);
    redis_server_pause(&server);
    struct status_store_answer answer = claim("hung", "f");
    assert_false(answer.reached);
    assert_int_equal(answer.claimed, STATUS_STORE_NEW);
    assert_true(stats().is_up); /* slow is not yet away */
    assert_int_equal(stats().claims_unanswered, 1);
    assert_false(finish("hung", "f", STATUS_DONE).reached);
    assert_false(stats().is_up);
    redis_server_resume(&server);
    for (int64_t end = now_ms() + WAIT_MS_MAX; !stats().is_up || stats().backlog_count > 0;) {
        assert_true(now_ms() < end);
        turn();
    }
    assert_claimed(claim("hung", "f"), STATUS_STORE_DONE, 0);
}

static void drops_the_oldest_finishes_beyond_its_backlog(void **state) {
    static struct status_store_answer answers[300];
    status_store_close(store);
    struct status_store_options small = options();
    small.backlog_max = 150;
    open_store(&small);
    redis_server_kill(&server);
    while (stats().is_up) {
        turn();
    }
    for (uint64_t i = 0; i < 300; i++) {
        char id[32];
        snprintf(id, sizeof id, "drop-%u", (unsigned)i);
        queue_finish(i, id, "f", STATUS_DONE);
    }
    wait_for_answers(answers, 300);
    struct status_store_stats now = stats();
    assert_in_range(now.backlog_count, 1, 150);
    assert_int_equal(now.dropped_total + now.backlog_count, 300);
    redis_server_restart(&server);
    redisFree(direct);
    direct = redisConnect("127.0.0.1", server.port);
    while (stats().backlog_count > 0) {
        turn();
    }
    claim("behind", "f");
    assert_field("drop-299", "state", "done");
    assert_field("drop-0", "state", NULL);
}

static void logs_in_and_selects_its_database(void **state) {
    char address[128];
    freeReplyObject(redisCommand(direct, "CONFIG SET requirepass s3cret"));
    status_store_close(store);
    struct status_store_options with = options();
    snprintf(address, sizeof address, "redis://:s3cret@127.0.0.1:%d/2", server.port);
    with.address = address;
    open_store(&with);
    assert_claimed(claim("inside", "f"), STATUS_STORE_NEW, 1);
    assert_field("inside", "state", NULL);
    freeReplyObject(redisCommand(direct, "SELECT 2"));
    assert_field("inside", "state", "queued");

    status_store_close(store);
    char err[256];
    snprintf(address, sizeof address, "redis://:wrong@127.0.0.1:%d", server.port);
    assert_true(status_store_open(&with, &store, err, sizeof err));
    assert_false(claim("outside", "f").reached);
    freeReplyObject(redisCommand(direct, "CONFIG SET requirepass %s", ""));
}

/* A server that loads scripts and then says of every key that it has moved. */
static pid_t start_cluster_node(int listener) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child != 0) {
        return child;
    }
    static const char digest[] = "$40\r\n0123456789012345678901234567890123456789\r\n";
    static const char moved[] = "-MOVED 1234 127.0.0.1:1\r\n";
    int link = accept(listener, NULL, NULL);
    char bytes[16384];
    for (ssize_t size; (size = read(link, bytes, sizeof bytes)) > 0;) {
        bool evaluates = false;
        for (ssize_t i = 0; i + 7 < size; i++) {
            evaluates |= memcmp(bytes + i, "EVALSHA", 7) == 0;
            if (memcmp(bytes + i, "\r\nLOAD\r\n", 8) == 0) {
                (void)!write(link, digest, sizeof digest - 1);
            }
        }
        if (evaluates) {
            (void)!write(link, moved, sizeof moved - 1);
        }
    }
    _exit(0);
}

static void says_that_a_cluster_is_not_supported(void **state) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), said[2];
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t name_bytes = sizeof name;
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&name, &name_bytes);
    assert_int_equal(pipe(said), 0);
    pid_t node = start_cluster_node(listener);
    close(listener);

    char address[64], text[4096];
    struct log log;
    log_init(&log, said[1], LOG_LEVEL_WARN, NULL);
    struct status_store_options cluster = options();
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(name.sin_port));
    cluster.address = address;
    cluster.log = &log;
    status_store_close(store);
    open_store(&cluster);
    assert_false(claim("elsewhere", "f").reached);
    ssize_t size = read(said[0], text, sizeof text - 1);
    assert_true(size > 0);
    text[size] = '\0';
    assert_non_null(strstr(text, "MOVED"));
    assert_non_null(strstr(text, "Redis Cluster is not supported"));
    kill(node, SIGKILL);
    waitpid(node, NULL, 0);
    close(said[0]);
    close(said[1]);
}

static void refuses_an_address_it_cannot_read(void **state) {
    struct status_store_options wrong = options();
    struct status_store *none = NULL;
    char err[256];
    wrong.address = "http://127.0.0.1";
    assert_false(status_store_open(&wrong, &none, err, sizeof err));
    assert_string_not_equal(err, "");
}

static int start(void **state) {
    if (server.pid == 0) {
        redis_server_open(&server);
    }
    direct = redisConnect("127.0.0.1", server.port);
    struct status_store_options usual = options();
    open_store(&usual);
    return 0;
}

static int stop(void **state) {
    status_store_close(store);
    redisFree(direct);
    return 0;
}

static int stop_server(void **state) {
    redis_server_close(&server);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)
TEST_MAIN_WITH(NULL, stop_server, CASE(numbers_the_attempts_of_a_new_id),
               CASE(tells_a_finished_record_from_another_with_its_id),
               CASE(claims_an_id_only_if_it_is_queued_when_asked_so), CASE(treats_each_key_alone),
               CASE(answers_more_keys_than_one_command_holds),
               CASE(never_takes_a_terminal_state_back),
               CASE(takes_progress_from_the_current_attempt_only),
               CASE(lets_a_status_live_for_its_time), CASE(publishes_each_change),
               CASE(loads_the_scripts_again_when_the_server_lost_them),
               CASE(agrees_with_the_obvious_version_under_random_sequences),
               CASE(serves_on_with_the_server_away_and_replays_when_it_is_back),
               CASE(answers_what_was_under_way_when_the_server_fell),
               CASE(counts_a_claim_without_an_answer_in_time_as_new),
               CASE(drops_the_oldest_finishes_beyond_its_backlog),
               CASE(logs_in_and_selects_its_database), CASE(says_that_a_cluster_is_not_supported),
               CASE(refuses_an_address_it_cannot_read))
