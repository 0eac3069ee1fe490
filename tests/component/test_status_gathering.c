/* How the status store gathers keys into calls, counted by the server itself. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/status_rig.h"
#include "tests/support/test.h"

#define KEYS_MAX 128 /* of a call */
#define CASE(name) cmocka_unit_test_setup_teardown(name, status_rig_start, status_rig_stop)

static long calls_so_far(void) {
    redisReply *reply = redisCommand(status_rig.direct, "INFO commandstats");
    assert_non_null(reply);
    const char *at = strstr(reply->str, "cmdstat_evalsha:calls=");
    long calls = at != NULL ? strtol(strchr(at, '=') + 1, NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

static void queue_claims(uint64_t first, uint64_t count) {
    for (uint64_t ticket = first; ticket < first + count; ticket++) {
        char id[32];
        snprintf(id, sizeof id, "gather-%u", (unsigned)ticket);
        status_rig_queue_claim(ticket, id, "f", (int64_t)ticket);
    }
}

/* As a worker does: what is owed is taken, then as much as may go is sent. Answers come in the
 * order of the claims. */
static void take_claims(uint64_t first, uint64_t count) {
    for (uint64_t taken = 0; taken < count;) {
        struct status_store_answer answer;
        if (!status_store_take(status_rig.store, &answer)) {
            status_rig_turn();
            status_store_send(status_rig.store);
            continue;
        }
        assert_int_equal(answer.ticket, first + taken++);
        status_rig_assert_claimed(answer, STATUS_STORE_NEW, 1);
    }
}

static void keys_of_many_steps_share_a_call_while_an_answer_is_owed(void **state) {
    long before = calls_so_far();
    for (uint64_t step = 0; step < 50; step++) {
        queue_claims(step, 1);
        status_store_send(status_rig.store);
    }
    take_claims(0, 50);
    assert_int_equal(calls_so_far() - before, 2);
}

static void two_calls_are_under_way_however_much_is_gathered(void **state) {
    long before = calls_so_far();
    queue_claims(0, 5 * KEYS_MAX + 1);
    status_store_send(status_rig.store);
    while (calls_so_far() - before < 2) {
    }
    assert_int_equal(calls_so_far() - before, 2);
    take_claims(0, 5 * KEYS_MAX + 1);
    assert_int_equal(calls_so_far() - before, 6);
}

static void a_lease_is_kept_or_given_back_at_once(void **state) {
    queue_claims(0, 1);
    status_store_send(status_rig.store);
    take_claims(0, 1);
    long before = calls_so_far();
    for (int i = 0; i < 3; i++) {
        status_store_renew(status_rig.store, 0, "gather-0", 1);
        status_store_send(status_rig.store);
    }
    status_store_release(status_rig.store, "gather-0", 1);
    status_store_send(status_rig.store);
    status_rig_settle();
    assert_true(calls_so_far() - before >= 4);
    status_rig_assert_field("gather-0", "owner", NULL);
}

/* A seal takes along what was said of the job before, even where that would gather more. */
static void no_seal_overtakes_an_advance(void **state) {
    queue_claims(1000, 2);
    status_store_send(status_rig.store);
    take_claims(1000, 2);
    for (int i = 0; i < 2; i++) {
        struct status_store_advance advance = {.request_id = i == 0 ? "gather-1000" : "gather-1001",
                                               .attempt = 1,
                                               .started_unix_ms = 777,
                                               .prompt_tokens = 1};
        status_store_advance(status_rig.store, &advance);
        if (i == 0) {
            status_store_send(status_rig.store); /* its answer is owed from now on */
        }
    }
    struct status_store_finish end = status_rig_end("gather-1001", "f", STATUS_DONE, "{}");
    struct status_store_answer answer;
    end.attempt = 1;
    status_store_seal(status_rig.store, 1, &end);
    status_store_send(status_rig.store);
    while (!status_store_take(status_rig.store, &answer)) {
        status_rig_turn();
    }
    assert_int_equal(answer.kind, STATUS_STORE_SEAL);
    status_rig_assert_field("gather-1001", "started_at", "777");
    status_rig_assert_field("gather-1001", "sealed", "done");
}

TEST_MAIN_WITH(NULL, status_rig_stop_server,
               CASE(keys_of_many_steps_share_a_call_while_an_answer_is_owed),
               CASE(two_calls_are_under_way_however_much_is_gathered),
               CASE(a_lease_is_kept_or_given_back_at_once), CASE(no_seal_overtakes_an_advance))
