#include "consumer/job_life.h"

#include "tests/support/test.h"

#define STATES JOB_LIFE_GONE /* those with something to come */

static struct job_life at(enum job_life_state state) {
    return (struct job_life){.state = state, .then = JOB_LIFE_DO_GIVE_BACK};
}

/* Takes the events in their order; gives the last action. */
static enum job_life_action take(struct job_life *life, const enum job_life_event *events,
                                 size_t count) {
    enum job_life_action action = JOB_LIFE_IMPOSSIBLE;
    for (size_t i = 0; i < count; i++) {
        action = job_life_take(life, events[i]);
        assert_int_not_equal(action, JOB_LIFE_IMPOSSIBLE);
    }
    return action;
}
#define TAKE(life, ...)                                    \
    take(life, (const enum job_life_event[]){__VA_ARGS__}, \
         sizeof((const enum job_life_event[]){__VA_ARGS__}) / sizeof(enum job_life_event))

static void goes_from_the_claim_to_the_end(void **state) {
    struct job_life life = {0};
    static const struct {
        enum job_life_event event;
        enum job_life_action action;
        enum job_life_state next;
    } way[] = {{JOB_LIFE_IS_NEW, JOB_LIFE_DO_WAIT, JOB_LIFE_WAITING},
               {JOB_LIFE_ADMIT, JOB_LIFE_NOTHING, JOB_LIFE_ADMITTED},
               {JOB_LIFE_START, JOB_LIFE_DO_NOTE_START, JOB_LIFE_RUNNING},
               {JOB_LIFE_END, JOB_LIFE_DO_SEAL, JOB_LIFE_SEALING},
               {JOB_LIFE_SEAL_HOLDS, JOB_LIFE_DO_PUBLISH, JOB_LIFE_PUBLISHING},
               {JOB_LIFE_ACKNOWLEDGE, JOB_LIFE_DO_FINISH, JOB_LIFE_FINISHING},
               {JOB_LIFE_WRITE, JOB_LIFE_DO_SETTLE, JOB_LIFE_GONE}};
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++) {
        assert_int_equal(job_life_take(&life, way[i].event), way[i].action);
        assert_int_equal(life.state, way[i].next);
    }
}

static void leaves_a_life_as_it_was_when_something_cannot_happen(void **state) {
    struct job_life life = at(JOB_LIFE_WAITING);
    assert_int_equal(job_life_take(&life, JOB_LIFE_ACKNOWLEDGE), JOB_LIFE_IMPOSSIBLE);
    assert_int_equal(life.state, JOB_LIFE_WAITING);
    life = at(JOB_LIFE_GONE);
    for (int event = 0; event < JOB_LIFE_EVENT_COUNT; event++) {
        assert_int_equal(job_life_take(&life, (enum job_life_event)event), JOB_LIFE_IMPOSSIBLE);
    }
}

static void publishes_only_what_was_offered_to_be_sealed(void **state) {
    for (int from = 0; from < STATES; from++) {
        for (int event = 0; event < JOB_LIFE_EVENT_COUNT; event++) {
            struct job_life life = at((enum job_life_state)from);
            enum job_life_action action = job_life_take(&life, (enum job_life_event)event);
            if (action == JOB_LIFE_DO_PUBLISH) {
                assert_int_equal(from, JOB_LIFE_SEALING);
            }
            if (action == JOB_LIFE_DO_FINISH) {
                assert_int_equal(from, JOB_LIFE_PUBLISHING);
            }
            if (action == JOB_LIFE_DO_SEAL || action == JOB_LIFE_DO_FAIL ||
                action == JOB_LIFE_DO_FAIL_AND_LETTER || action == JOB_LIFE_DO_END_UNRUN) {
                assert_int_equal(life.state, JOB_LIFE_SEALING);
            }
        }
    }
}

static void lets_what_is_sealed_go_its_way(void **state) {
    for (int from = JOB_LIFE_SEALING; from < STATES; from++) {
        for (int orphan = 0; orphan < 2; orphan++) {
            for (int event = 0; event < JOB_LIFE_EVENT_COUNT; event++) {
                struct job_life life = at((enum job_life_state)from);
                life.is_orphan = orphan != 0;
                enum job_life_action action = job_life_take(&life, (enum job_life_event)event);
                assert_true(action == JOB_LIFE_IMPOSSIBLE ||
                            (int)life.state >= from); /* never back */
                assert_int_not_equal(action, JOB_LIFE_DO_GIVE_BACK);
                assert_int_not_equal(action, JOB_LIFE_DO_STOP);
            }
        }
    }
}

static bool is_final(int event) {
    return event == JOB_LIFE_END || event == JOB_LIFE_STOPPED || event == JOB_LIFE_BREAK ||
           event == JOB_LIFE_ENGINE_GONE;
}

static void leaves_the_engine_by_its_final_event_only(void **state) {
    for (int from = JOB_LIFE_ADMITTED; from <= JOB_LIFE_STOPPING; from++) {
        for (int event = 0; event < JOB_LIFE_EVENT_COUNT; event++) {
            struct job_life life = at((enum job_life_state)from);
            enum job_life_action action = job_life_take(&life, (enum job_life_event)event);
            if (action != JOB_LIFE_IMPOSSIBLE && event != JOB_LIFE_EXPIRE) {
                assert_int_equal(!job_life_is_in_engine(&life), is_final(event));
            }
        }
    }
}

/* A claim that is held ends settled, given back or taken up again: never just forgotten. */
static void never_forgets_a_claim(void **state) {
    for (int from = JOB_LIFE_WAITING; from < STATES; from++) {
        for (int orphan = 0; orphan < 2; orphan++) {
            for (int event = 0; event < JOB_LIFE_EVENT_COUNT; event++) {
                struct job_life life = at((enum job_life_state)from);
                life.is_orphan = orphan != 0;
                enum job_life_action action = job_life_take(&life, (enum job_life_event)event);
                if (action == JOB_LIFE_DO_FORGET) { /* it was lost, or never was ours */
                    assert_true(event == JOB_LIFE_LOSE || event == JOB_LIFE_IS_CONFLICT ||
                                event == JOB_LIFE_SEAL_CONFLICT);
                }
            }
        }
    }
}

/* Every state that can be reached, with every `then`. */
static void can_always_come_to_its_end(void **state) {
    bool ends[STATES + 1][JOB_LIFE_ACTION_COUNT] = {0};
    for (int then = 0; then < JOB_LIFE_ACTION_COUNT; then++) {
        ends[JOB_LIFE_GONE][then] = true;
    }
    for (int round = 0; round < STATES * 4; round++) {
        for (int from = 0; from < STATES; from++) {
            for (int then = 0; then < JOB_LIFE_ACTION_COUNT; then++) {
                for (int event = 0; event < JOB_LIFE_EVENT_COUNT; event++) {
                    struct job_life life = {.state = (enum job_life_state)from,
                                            .then = (enum job_life_action)then};
                    if (from == JOB_LIFE_STOPPING && then != JOB_LIFE_DO_CLAIM &&
                        then != JOB_LIFE_DO_SETTLE_AS_DONE && then != JOB_LIFE_DO_GIVE_BACK) {
                        continue;
                    }
                    ends[from][then] |=
                        job_life_take(&life, (enum job_life_event)event) != JOB_LIFE_IMPOSSIBLE &&
                        ends[life.state][life.then];
                }
            }
        }
    }
    for (int from = 0; from < STATES; from++) {
        assert_true(ends[from][JOB_LIFE_DO_GIVE_BACK]);
        assert_true(ends[from][JOB_LIFE_DO_CLAIM]);
    }
}

static void stops_what_runs_when_a_late_answer_says_that_it_is_done(void **state) {
    struct job_life life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_IS_DONE), JOB_LIFE_DO_STOP);
    assert_int_equal(TAKE(&life, JOB_LIFE_STOPPED), JOB_LIFE_DO_SETTLE_AS_DONE);
    life = at(JOB_LIFE_ADMITTED);
    assert_int_equal(TAKE(&life, JOB_LIFE_IS_CONFLICT, JOB_LIFE_START, JOB_LIFE_END),
                     JOB_LIFE_DO_LETTER);
    life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_IS_SEALED, JOB_LIFE_END), JOB_LIFE_DO_PUBLISH_SEALED);
    life = at(JOB_LIFE_SEALING);
    assert_int_equal(TAKE(&life, JOB_LIFE_IS_DONE), JOB_LIFE_NOTHING);
}

static void claims_again_when_the_lease_is_lost(void **state) {
    struct job_life life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_LOSE), JOB_LIFE_DO_STOP);
    assert_int_equal(TAKE(&life, JOB_LIFE_STOPPED), JOB_LIFE_DO_CLAIM);
    assert_int_equal(TAKE(&life, JOB_LIFE_IS_HELD_ELSEWHERE), JOB_LIFE_DO_PARK);
    assert_int_equal(TAKE(&life, JOB_LIFE_DUE, JOB_LIFE_IS_DONE), JOB_LIFE_DO_SETTLE_AS_DONE);
    life = at(JOB_LIFE_PUBLISHING);
    assert_int_equal(TAKE(&life, JOB_LIFE_LOSE), JOB_LIFE_NOTHING);
}

static void begins_nothing_for_an_orphan(void **state) {
    struct job_life life = {0};
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN, JOB_LIFE_IS_NEW), JOB_LIFE_DO_GIVE_BACK);
    life = (struct job_life){0};
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN, JOB_LIFE_IS_HELD_ELSEWHERE), JOB_LIFE_DO_FORGET);
    life = at(JOB_LIFE_WAITING);
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN), JOB_LIFE_DO_GIVE_BACK);
    life = at(JOB_LIFE_ADMITTED);
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN), JOB_LIFE_DO_STOP);
    life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN, JOB_LIFE_BREAK), JOB_LIFE_DO_GIVE_BACK);
}

static void lets_an_orphan_run_until_its_time_is_over(void **state) {
    struct job_life life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN), JOB_LIFE_NOTHING);
    assert_int_equal(TAKE(&life, JOB_LIFE_GIVE_UP), JOB_LIFE_DO_STOP);
    assert_int_equal(TAKE(&life, JOB_LIFE_STOPPED), JOB_LIFE_DO_GIVE_BACK);
    life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN, JOB_LIFE_GIVE_UP, JOB_LIFE_END),
                     JOB_LIFE_DO_SEAL); /* it was faster than the stop: as good as any */
}

static void runs_on_when_its_record_comes_back(void **state) {
    struct job_life life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_ORPHAN, JOB_LIFE_JOIN), JOB_LIFE_NOTHING);
    assert_false(life.is_orphan);
    life = at(JOB_LIFE_RUNNING);
    assert_int_equal(
        TAKE(&life, JOB_LIFE_ORPHAN, JOB_LIFE_GIVE_UP, JOB_LIFE_JOIN, JOB_LIFE_STOPPED),
        JOB_LIFE_DO_WAIT_AGAIN);
    assert_int_equal(life.state, JOB_LIFE_WAITING);
}

static void seals_the_end_of_a_job_that_was_called_off(void **state) {
    struct job_life life = at(JOB_LIFE_RUNNING);
    assert_int_equal(TAKE(&life, JOB_LIFE_CALL_OFF), JOB_LIFE_DO_CALL_OFF);
    assert_int_equal(TAKE(&life, JOB_LIFE_END), JOB_LIFE_DO_SEAL);
    life = at(JOB_LIFE_WAITING);
    assert_int_equal(TAKE(&life, JOB_LIFE_CALL_OFF), JOB_LIFE_DO_END_UNRUN);
    assert_int_equal(life.state, JOB_LIFE_SEALING);
}

TEST_MAIN(cmocka_unit_test(goes_from_the_claim_to_the_end),
          cmocka_unit_test(leaves_a_life_as_it_was_when_something_cannot_happen),
          cmocka_unit_test(publishes_only_what_was_offered_to_be_sealed),
          cmocka_unit_test(lets_what_is_sealed_go_its_way),
          cmocka_unit_test(leaves_the_engine_by_its_final_event_only),
          cmocka_unit_test(never_forgets_a_claim), cmocka_unit_test(can_always_come_to_its_end),
          cmocka_unit_test(stops_what_runs_when_a_late_answer_says_that_it_is_done),
          cmocka_unit_test(claims_again_when_the_lease_is_lost),
          cmocka_unit_test(begins_nothing_for_an_orphan),
          cmocka_unit_test(lets_an_orphan_run_until_its_time_is_over),
          cmocka_unit_test(runs_on_when_its_record_comes_back),
          cmocka_unit_test(seals_the_end_of_a_job_that_was_called_off))
