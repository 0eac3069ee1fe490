/* The contract of engine/engine.h as test cases that any kind of engine must pass.
 *
 * A test file opens its kind of engine in `contract_open`, which it defines, and puts
 * ENGINE_CONTRACT_TESTS among its cases. */
#ifndef SOLFLEET_TESTS_SUPPORT_ENGINE_CONTRACT_H
#define SOLFLEET_TESTS_SUPPORT_ENGINE_CONTRACT_H

#include "engine/clock.h"
#include "engine/engine.h"
#include "tests/support/engine_run.h"
#include "tests/support/test.h"

/* Defined by the test file: an engine that admits `tickets_max` tickets at once and answers each
 * job no earlier than `delay_ms` after its admission by `clock`, or needs several steps for it. */
struct engine *contract_open(uint32_t tickets_max, int64_t delay_ms, struct clock *clock);

void finishes_each_ticket_exactly_once(void **state);
void moves_a_job_on_ok_and_leaves_it_on_busy(void **state);
void gives_room_back_when_a_finish_is_taken(void **state);
void rejects_an_empty_prompt_and_leaves_the_job(void **state);
void ends_a_cancelled_ticket_within_one_step(void **state);
void ends_a_job_at_its_deadline_by_itself(void **state);
void never_ends_a_job_as_done_after_its_deadline(void **state);
void begins_nothing_that_comes_after_its_deadline(void **state);
void ends_thousands_at_once_that_nobody_waits_for(void **state);
void ignores_a_cancel_of_an_unknown_ticket(void **state);
void keeps_its_descriptor_readable_while_events_wait(void **state);
void frees_work_and_events_that_nobody_took(void **state);
void wakes_its_thread_for_each_submit(void **state);
void gives_times_in_the_order_of_a_life(void **state);
void ends_every_ticket_once_under_random_submits_and_cancels(void **state);

#define ENGINE_CONTRACT_TESTS                                              \
    cmocka_unit_test(finishes_each_ticket_exactly_once),                   \
        cmocka_unit_test(moves_a_job_on_ok_and_leaves_it_on_busy),         \
        cmocka_unit_test(gives_room_back_when_a_finish_is_taken),          \
        cmocka_unit_test(rejects_an_empty_prompt_and_leaves_the_job),      \
        cmocka_unit_test(ends_a_cancelled_ticket_within_one_step),         \
        cmocka_unit_test(ends_a_job_at_its_deadline_by_itself),            \
        cmocka_unit_test(never_ends_a_job_as_done_after_its_deadline),     \
        cmocka_unit_test(begins_nothing_that_comes_after_its_deadline),    \
        cmocka_unit_test(ends_thousands_at_once_that_nobody_waits_for),    \
        cmocka_unit_test(ignores_a_cancel_of_an_unknown_ticket),           \
        cmocka_unit_test(keeps_its_descriptor_readable_while_events_wait), \
        cmocka_unit_test(frees_work_and_events_that_nobody_took),          \
        cmocka_unit_test(wakes_its_thread_for_each_submit),                \
        cmocka_unit_test(gives_times_in_the_order_of_a_life),              \
        cmocka_unit_test(ends_every_ticket_once_under_random_submits_and_cancels)

#endif
