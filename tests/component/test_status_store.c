/* The status store on a real redis-server that is well: what each call makes of a status. (What the
 * scripts do in detail is held to a model by test_status_scripts; a server that is not well, by
 * test_status_faults.) */
#include "consumer/status_store.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/status_rig.h"
#include "tests/support/test.h"

#define ANSWERS_MAX 1024

static void as_worker(const char *worker, const char *incarnation, int64_t lease_ms) {
    struct status_store_options options = status_rig_options();
    options.worker = worker;
    options.incarnation = incarnation;
    options.lease_ms = lease_ms;
    status_rig_reopen(&options);
}

static struct status_store_finish done(const char *id) {
    return status_rig_end(id, "f", STATUS_DONE, "{\"a\":1}");
}

/* ---- claims ---- */

static void claims_a_new_id_with_owner_claim_and_lease(void **state) {
    status_rig_assert_claimed(status_rig_claim("new", "f1", 5), STATUS_STORE_NEW, 1);
    status_rig_assert_field("new", "state", "queued");
    status_rig_assert_field("new", "queued_at", "1234");
    status_rig_assert_field("new", "worker", "w1");
    status_rig_assert_field("new", "owner", "w1/a");
    status_rig_assert_field("new", "claim", "0:5:1");
    status_rig_assert_field("new", "fingerprint", "f1");
}

static void answers_the_same_claim_again_as_before(void **state) {
    status_rig_assert_claimed(status_rig_claim("again", "f", 5), STATUS_STORE_NEW, 1);
    status_rig_assert_claimed(status_rig_claim("again", "f", 5), STATUS_STORE_NEW, 1);
    status_rig_assert_field("again", "attempt", "1");
}

static void tells_a_finished_record_from_another_with_its_id(void **state) {
    struct status_store_finish end = done("dup");
    status_rig_claim("dup", "f", 1);
    status_rig_assert_claimed(status_rig_claim("dup", "f2", 2), STATUS_STORE_CONFLICT, 0);
    assert_true(status_rig_finish(&end).reached);
    status_rig_assert_claimed(status_rig_claim("dup", "f", 1), STATUS_STORE_DONE, 0);
    status_rig_assert_claimed(status_rig_claim("dup", "f2", 2), STATUS_STORE_CONFLICT, 0);
    status_rig_assert_field("dup", "state", "done");
    status_rig_assert_field("dup", "result_offset", "0");
}

static void claims_an_id_only_if_it_is_queued_when_asked_so(void **state) {
    struct status_store_answer answers[2];
    struct status_store_claim claim = {
        .request_id = "q1", .fingerprint = "f", .queued_unix_ms = 9, .only_if_queued = true};
    status_rig_order("HSET solfleet:job:{q1} state queued queued_at 7");
    status_store_claim(status_rig.store, 1, &claim);
    claim.request_id = "q2";
    status_store_claim(status_rig.store, 2, &claim);
    status_rig_answers(answers, 2);
    status_rig_assert_claimed(answers[0], STATUS_STORE_NEW, 1);
    status_rig_assert_claimed(answers[1], STATUS_STORE_NONE, 0);
    status_rig_assert_field("q1", "queued_at", "7");
    status_rig_assert_field("q2", "state", NULL);
}

static void says_here_when_this_process_holds_it_under_another_record(void **state) {
    status_rig_claim("here", "f", 1);
    status_rig_assert_claimed(status_rig_claim("here", "f", 2), STATUS_STORE_RUNNING_HERE, 1);
    status_rig_assert_field("here", "claim", "0:1:1");
}

static void claims_what_it_has_released(void **state) {
    status_rig_claim("back", "f", 1);
    status_store_release(status_rig.store, "back", 1);
    status_rig_assert_claimed(status_rig_claim("back", "f", 2), STATUS_STORE_NEW,
                              2);                      /* one flush */
    status_store_release(status_rig.store, "back", 1); /* of an attempt that is gone */
    status_rig_settle();
    status_rig_assert_field("back", "owner", "w1/a");
}

static void parks_behind_a_lease_and_takes_over_when_it_has_lapsed(void **state) {
    status_rig_claim("lease", "f", 1);
    as_worker("w2", "a", 60000);
    struct status_store_answer answer = status_rig_claim("lease", "f", 1);
    status_rig_assert_claimed(answer, STATUS_STORE_RUNNING_ELSEWHERE, 0);
    assert_in_range(answer.lease_left_ms, 1, 60000);
    status_rig_order("HSET solfleet:job:{lease} lease_until 1000");
    answer = status_rig_claim("lease", "f", 1);
    status_rig_assert_claimed(answer, STATUS_STORE_NEW, 2);
    assert_int_equal(answer.deaths, 0); /* it had not begun to run */
}

static void counts_a_death_only_of_a_run_that_was_not_given_back(void **state) {
    status_rig_claim("death", "f", 1);
    status_rig_advance("death", 1, NULL);
    status_store_release(status_rig.store, "death", 1);
    status_rig_settle();
    assert_int_equal(status_rig_claim("death", "f", 2).deaths, 0);
    status_rig_advance("death", 2, NULL);
    as_worker("w1", "b", 60000); /* the same name: the former is dead at once */
    struct status_store_answer answer = status_rig_claim("death", "f", 2);
    status_rig_assert_claimed(answer, STATUS_STORE_NEW, 3);
    assert_int_equal(answer.deaths, 1);
    as_worker("w1", "c", 60000); /* died, too, but before it ran the job */
    assert_int_equal(status_rig_claim("death", "f", 2).deaths, 1);
    status_rig_assert_field("death", "deaths", "1");
    status_rig_assert_field("death", "state", "running"); /* never goes back */
}

static void calls_a_job_poison_at_its_third_death(void **state) {
    struct status_store_answer answer = status_rig_claim("poison", "f", 1);
    for (int life = 1; life <= 3; life++) {
        char incarnation[] = {(char)('a' + life), '\0'};
        status_rig_assert_claimed(answer, STATUS_STORE_NEW, (uint32_t)life);
        status_rig_advance("poison", answer.attempt, NULL);
        as_worker("w1", incarnation, 60000);
        answer = status_rig_claim("poison", "f", 1);
        assert_int_equal(answer.deaths, life);
    }
    status_rig_assert_claimed(answer, STATUS_STORE_POISON, 4);
    status_rig_assert_claimed(status_rig_claim("poison", "f", 1), STATUS_STORE_POISON, 4);
}

static void tells_of_a_cancel_with_the_claim_and_with_a_renewal(void **state) {
    struct status_store_answer answer;
    status_rig_order("HSET solfleet:job:{cancel} cancel_requested 1");
    answer = status_rig_claim("cancel", "f", 1);
    status_rig_assert_claimed(answer, STATUS_STORE_NEW, 1);
    assert_true(answer.cancel_requested);
    status_store_renew(status_rig.store, 5, "cancel", 1);
    status_rig_answers(&answer, 1);
    assert_int_equal(answer.kind, STATUS_STORE_RENEW);
    assert_int_equal(answer.ticket, 5);
    assert_true(answer.cancel_requested && !answer.lost);
}

/* ---- while it runs ---- */

static void renews_without_a_word_until_another_owns_it(void **state) {
    struct status_store_answer answer;
    status_rig_claim("renew", "f", 1);
    status_rig_order("HSET solfleet:job:{renew} lease_until 1000");
    status_store_renew(status_rig.store, 5, "renew", 1);
    status_rig_settle(); /* no other answer came before that one's */
    as_worker("w2", "a", 60000);
    status_rig_assert_claimed(status_rig_claim("renew", "f", 1), STATUS_STORE_RUNNING_ELSEWHERE, 0);
    status_store_renew(status_rig.store, 5, "renew", 1);
    status_rig_answers(&answer, 1);
    assert_int_equal(answer.kind, STATUS_STORE_RENEW);
    assert_true(answer.lost && !answer.cancel_requested);
}

static void makes_a_lease_again_that_vanished_with_its_key(void **state) {
    status_rig_claim("gone", "f", 1);
    status_rig_order("DEL solfleet:job:{gone}");
    status_store_renew(status_rig.store, 5, "gone", 1);
    status_rig_settle();
    status_rig_assert_field("gone", "owner", "w1/a");
    status_rig_assert_field("gone", "attempt", "1");
    as_worker("w2", "a", 60000);
    status_rig_assert_claimed(status_rig_claim("gone", "f", 1), STATUS_STORE_RUNNING_ELSEWHERE, 0);
}

static void takes_progress_from_the_current_attempt_only(void **state) {
    status_rig_claim("step", "f", 1);
    status_store_release(status_rig.store, "step", 1);
    status_rig_claim("step", "f", 2);
    status_rig_advance("step", 1, "old");
    status_rig_assert_field("step", "state", "queued");
    status_rig_advance("step", 2, "new");
    status_rig_assert_field("step", "state", "running");
    status_rig_assert_field("step", "running_attempt", "2");
    status_rig_assert_field("step", "text", "new");
    status_rig_assert_field("step", "started_at", "2000");
    status_rig_assert_field("step", "completion_tokens", "1");
}

/* ---- seals ---- */

static void seals_an_outcome_and_leaves_the_state(void **state) {
    struct status_store_finish end = done("seal");
    status_rig_claim("seal", "f", 1);
    status_rig_advance("seal", 1, NULL);
    struct status_store_answer answer = status_rig_seal(&end);
    assert_true(answer.reached);
    assert_int_equal(answer.seal, STATUS_STORE_SEALED_NOW);
    status_rig_assert_field("seal", "state", "running");
    status_rig_assert_field("seal", "sealed", "done");
    status_rig_assert_field("seal", "result", "{\"a\":1}");
    status_rig_advance("seal", 1, "more");
    status_rig_assert_field("seal", "text", NULL); /* what is sealed stays */
}

static void answers_a_later_seal_with_the_outcome_that_stands(void **state) {
    struct status_store_finish first = done("seals");
    first.text = "the text";
    status_rig_claim("seals", "f", 1);
    status_rig_seal(&first);
    struct status_store_finish second = status_rig_end("seals", "f", STATUS_FAILED, "{\"b\":2}");
    second.error_code = "numeric";
    struct status_store_answer answer = status_rig_seal(&second);
    assert_int_equal(answer.seal, STATUS_STORE_SEALED_BEFORE);
    assert_int_equal(answer.sealed->state, STATUS_DONE);
    assert_int_equal(answer.sealed->finished_unix_ms, 5678);
    assert_int_equal(answer.sealed->prompt_tokens, 3);
    assert_int_equal(answer.sealed->completion_tokens, 4);
    assert_null(answer.sealed->error_code);
    assert_string_equal(answer.sealed->text, "the text");
    assert_int_equal(answer.sealed->result_bytes, 7);
    assert_string_equal(answer.sealed->result, "{\"a\":1}");
}

static void gives_the_sealed_outcome_to_whoever_takes_over(void **state) {
    struct status_store_finish end = done("heir");
    status_rig_claim("heir", "f", 1);
    status_rig_advance("heir", 1, NULL);
    status_rig_seal(&end);
    as_worker("w1", "b", 60000);
    struct status_store_answer answer = status_rig_claim("heir", "f", 1);
    status_rig_assert_claimed(answer, STATUS_STORE_SEALED, 1);
    assert_int_equal(answer.deaths, 0); /* it had been computed: no sign of poison */
    assert_int_equal(answer.sealed->state, STATUS_DONE);
    assert_string_equal(answer.sealed->result, "{\"a\":1}");
    status_rig_assert_field("heir", "owner", "w1/b");
    end.is_sealed = true;
    assert_true(status_rig_finish(&end).reached);
    status_rig_assert_field("heir", "state", "done");
}

static void says_of_a_seal_that_the_id_is_finished_or_anothers(void **state) {
    struct status_store_finish end = done("late");
    status_rig_claim("late", "f", 1);
    status_rig_finish(&end);
    assert_int_equal(status_rig_seal(&end).seal, STATUS_STORE_SEAL_TERMINAL);
    end.fingerprint = "f2";
    assert_int_equal(status_rig_seal(&end).seal, STATUS_STORE_SEAL_CONFLICT);
    status_rig_assert_field("late", "sealed", NULL);
}

/* ---- the end ---- */

static void clears_what_is_the_workers_own_when_it_finishes(void **state) {
    static const char *const own[] = {"owner", "claim", "lease_until", "sealed", "running_attempt"};
    struct status_store_finish end = done("end");
    status_rig_claim("end", "f", 1);
    status_rig_advance("end", 1, NULL);
    status_rig_seal(&end);
    end.is_sealed = true;
    assert_true(status_rig_finish(&end).reached);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        status_rig_assert_field("end", own[i], NULL);
    }
    status_rig_assert_field("end", "state", "done");
    status_rig_assert_field("end", "result", "{\"a\":1}"); /* sealed, not sent again */
    status_rig_assert_field("end", "result_topic", "results");
}

static void sends_the_result_again_where_the_seal_has_vanished(void **state) {
    struct status_store_answer answers[2];
    struct status_store_finish lost = done("lost"), kept = done("kept");
    status_rig_claim("lost", "f", 1);
    status_rig_claim("kept", "f", 1);
    status_rig_seal(&lost);
    status_rig_seal(&kept);
    status_rig_order("DEL solfleet:job:{lost}");
    lost.is_sealed = kept.is_sealed = true;
    status_store_finish(status_rig.store, 1, &lost);
    status_store_finish(status_rig.store, 2, &kept);
    status_rig_answers(answers, 2);
    assert_true(answers[0].reached && answers[1].reached);
    status_rig_assert_field("lost", "state", "done");
    status_rig_assert_field("lost", "result", "{\"a\":1}");
    status_rig_assert_field("lost", "finished_at", "5678");
    status_rig_assert_field("kept", "result", "{\"a\":1}");
}

static void does_not_keep_a_result_beyond_its_bound_once_finished(void **state) {
    static char large[2000];
    memset(large, 'x', sizeof large - 1);
    struct status_store_finish end = status_rig_end("large", "f", STATUS_DONE, large);
    status_rig_claim("large", "f", 1);
    status_rig_seal(&end);
    status_rig_assert_field("large", "result", large); /* to be published again if need be */
    end.is_sealed = true;
    assert_true(status_rig_finish(&end).reached);
    status_rig_assert_field("large", "state", "done");
    status_rig_assert_field("large", "result", NULL);
}

static void never_takes_a_terminal_state_back(void **state) {
    struct status_store_finish end = done("final");
    status_rig_claim("final", "f", 1);
    status_rig_finish(&end);
    status_rig_advance("final", 1, "late");
    end.state = STATUS_FAILED;
    assert_true(status_rig_finish(&end).reached);
    status_rig_assert_field("final", "state", "done");
    status_rig_assert_field("final", "text", NULL);
}

static void never_mixes_a_finish_with_another_sealed_outcome(void **state) {
    struct status_store_finish sealed = status_rig_end("mixed", "f", STATUS_FAILED, "{\"b\":2}");
    struct status_store_finish end = done("mixed");
    sealed.error_code = "numeric";
    status_rig_claim("mixed", "f", 1);
    status_rig_seal(&sealed);
    assert_true(status_rig_finish(&end).reached); /* by one that Redis was away for */
    status_rig_assert_field("mixed", "state", "done");
    status_rig_assert_field("mixed", "error_code", NULL);
    status_rig_assert_field("mixed", "result", "{\"a\":1}");
}

static void lets_a_status_live_for_its_time(void **state) {
    static const char *const ids[] = {"ttl-claim", "ttl-seal", "ttl-finish", "ttl-advance",
                                      "ttl-renew"};
    struct status_store_finish seal = done("ttl-seal"), end = done("ttl-finish");
    status_rig_claim("ttl-claim", "f", 1);
    status_rig_seal(&seal);
    status_rig_finish(&end);
    status_rig_advance("ttl-advance", 0, NULL);
    status_rig_claim("ttl-renew", "f", 1);
    status_rig_order("PERSIST solfleet:job:{ttl-renew}");
    status_store_renew(status_rig.store, 1, "ttl-renew", 1);
    status_rig_settle();
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        redisReply *reply = redisCommand(status_rig.direct, "TTL solfleet:job:{%s}", ids[i]);
        assert_in_range(reply->integer, 90, 100);
        freeReplyObject(reply);
    }
}

static void publishes_each_change_of_state(void **state) {
    redisContext *listener = redisConnect("127.0.0.1", status_rig.server.port);
    struct status_store_finish end = done("told");
    freeReplyObject(redisCommand(listener, "SUBSCRIBE solfleet:events:{told}"));
    status_rig_claim("told", "f", 1);
    status_rig_advance("told", 1, NULL);
    status_store_renew(status_rig.store, 1, "told", 1);
    status_rig_seal(&end);
    status_rig_finish(&end);
    static const char *const expected[] = {"queued", "running", "done"};
    for (size_t i = 0; i < 3; i++) {
        redisReply *reply = NULL;
        assert_int_equal(redisGetReply(listener, (void **)&reply), REDIS_OK);
        assert_string_equal(reply->element[2]->str, expected[i]);
        freeReplyObject(reply);
    }
    redisFree(listener);
}

/* ---- many keys ---- */

static void treats_each_key_alone(void **state) {
    struct status_store_answer answers[3];
    struct status_store_finish ends[3] = {done("even1"), done("odd"), done("even2")};
    status_rig_order("SET solfleet:job:{odd} string");
    status_rig_queue_claim(1, "even1", "f", 1);
    status_rig_queue_claim(2, "odd", "f", 1);
    status_rig_queue_claim(3, "even2", "f", 1);
    status_rig_answers(answers, 3);
    status_rig_assert_claimed(answers[0], STATUS_STORE_NEW, 1);
    status_rig_assert_claimed(answers[1], STATUS_STORE_NONE, 0);
    status_rig_assert_claimed(answers[2], STATUS_STORE_NEW, 1);
    for (uint64_t i = 0; i < 3; i++) {
        status_store_seal(status_rig.store, i, &ends[i]);
        status_store_release(status_rig.store, ends[i].request_id, 1);
        status_store_renew(status_rig.store, i, ends[i].request_id, 1);
    }
    status_rig_answers(answers, 3);
    assert_true(answers[0].reached && answers[2].reached);
    assert_false(answers[1].reached); /* nowhere to seal it: publish all the same */
    for (uint64_t i = 0; i < 3; i++) {
        status_store_finish(status_rig.store, i, &ends[i]);
    }
    status_rig_answers(answers, 3);
    status_rig_assert_field("even1", "state", "done");
    status_rig_assert_field("even2", "state", "done");
}

static void answers_more_keys_than_one_command_holds(void **state) {
    static struct status_store_answer answers[ANSWERS_MAX];
    for (uint64_t i = 0; i < ANSWERS_MAX; i++) {
        char id[32];
        snprintf(id, sizeof id, "many-%u", (unsigned)i);
        status_rig_queue_claim(i, id, "f", 1);
    }
    status_rig_answers(answers, ANSWERS_MAX);
    for (uint64_t i = 0; i < ANSWERS_MAX; i++) {
        assert_int_equal(answers[i].ticket, i);
        status_rig_assert_claimed(answers[i], STATUS_STORE_NEW, 1);
    }
}

/* Of one id: what is released and claimed, or runs and is sealed, keeps that order. */
static void sends_what_belongs_before_first(void **state) {
    static struct status_store_answer answers[ANSWERS_MAX];
    status_rig_claim("order", "f", 1);
    for (uint64_t i = 0; i < 127; i++) {
        char id[32];
        snprintf(id, sizeof id, "order-%u", (unsigned)i);
        status_rig_queue_claim(i, id, "f", 1);
    }
    status_store_release(status_rig.store, "order", 1);
    status_rig_queue_claim(127, "order", "f", 2);
    status_rig_queue_claim(128, "order-128", "f", 2); /* the claims are full: they go now */
    status_rig_answers(answers, 129);
    status_rig_assert_claimed(answers[127], STATUS_STORE_NEW, 2);
}

/* ---- what else may stand there ---- */

static void takes_what_no_worker_wrote_as_nothing(void **state) {
    status_rig_order("HSET solfleet:job:{junk} state running attempt abc deaths -5 owner w7/x "
                     "lease_until nan sealed perhaps running_attempt abc");
    struct status_store_answer answer = status_rig_claim("junk", "f", 1);
    status_rig_assert_claimed(answer, STATUS_STORE_NEW, 1);
    assert_int_equal(answer.deaths, 1);
    status_rig_order("HSET solfleet:job:{junk2} state odd attempt 1e300 deaths 1e300 owner w7/x "
                     "lease_until 1e300 sealed done");
    answer = status_rig_claim("junk2", "f", 1);
    assert_int_equal(answer.claimed, STATUS_STORE_RUNNING_ELSEWHERE);
    assert_in_range(answer.lease_left_ms, 1, INT32_MAX);
    status_rig_order("HSET solfleet:job:{junk2} lease_until 0");
    status_rig_assert_claimed(status_rig_claim("junk2", "f", 1), STATUS_STORE_NEW, 1);
    status_rig_order("HSET solfleet:job:{junk3} state running sealed done result {} "
                     "finished_at soon prompt_tokens many");
    answer = status_rig_claim("junk3", "f", 1);
    status_rig_assert_claimed(answer, STATUS_STORE_SEALED, 1);
    assert_int_equal(answer.sealed->finished_unix_ms, -1);
    assert_int_equal(answer.sealed->prompt_tokens, -1);
}

static void takes_statuses_of_the_version_before(void **state) {
    status_rig_order("HSET solfleet:job:{old} state running attempt 2 fingerprint f worker w9");
    status_rig_assert_claimed(status_rig_claim("old", "f", 1), STATUS_STORE_NEW, 3);
}

static void refuses_an_address_it_cannot_read(void **state) {
    struct status_store_options wrong = status_rig_options();
    struct status_store *none = NULL;
    char err[256];
    wrong.address = "http://127.0.0.1";
    assert_false(status_store_open(&wrong, &none, err, sizeof err));
    assert_string_not_equal(err, "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, status_rig_start, status_rig_stop)
TEST_MAIN_WITH(NULL, status_rig_stop_server, CASE(claims_a_new_id_with_owner_claim_and_lease),
               CASE(answers_the_same_claim_again_as_before),
               CASE(tells_a_finished_record_from_another_with_its_id),
               CASE(claims_an_id_only_if_it_is_queued_when_asked_so),
               CASE(says_here_when_this_process_holds_it_under_another_record),
               CASE(claims_what_it_has_released),
               CASE(parks_behind_a_lease_and_takes_over_when_it_has_lapsed),
               CASE(counts_a_death_only_of_a_run_that_was_not_given_back),
               CASE(calls_a_job_poison_at_its_third_death),
               CASE(tells_of_a_cancel_with_the_claim_and_with_a_renewal),
               CASE(renews_without_a_word_until_another_owns_it),
               CASE(makes_a_lease_again_that_vanished_with_its_key),
               CASE(takes_progress_from_the_current_attempt_only),
               CASE(seals_an_outcome_and_leaves_the_state),
               CASE(answers_a_later_seal_with_the_outcome_that_stands),
               CASE(gives_the_sealed_outcome_to_whoever_takes_over),
               CASE(says_of_a_seal_that_the_id_is_finished_or_anothers),
               CASE(clears_what_is_the_workers_own_when_it_finishes),
               CASE(sends_the_result_again_where_the_seal_has_vanished),
               CASE(does_not_keep_a_result_beyond_its_bound_once_finished),
               CASE(never_takes_a_terminal_state_back),
               CASE(never_mixes_a_finish_with_another_sealed_outcome),
               CASE(lets_a_status_live_for_its_time), CASE(publishes_each_change_of_state),
               CASE(treats_each_key_alone), CASE(answers_more_keys_than_one_command_holds),
               CASE(sends_what_belongs_before_first), CASE(takes_what_no_worker_wrote_as_nothing),
               CASE(takes_statuses_of_the_version_before), CASE(refuses_an_address_it_cannot_read))
