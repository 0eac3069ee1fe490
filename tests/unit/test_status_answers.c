#include "consumer/status_answers.h"

#include <string.h>

#include "tests/support/test.h"

static void gives_answers_in_the_order_they_came(void **state) {
    struct status_answers answers = {0};
    struct status_store_answer answer = {0};
    uint64_t pushed = 0, taken = 0, seed = test_seed();
    assert_false(status_answers_take(&answers, &answer));
    while (taken < 5000) {
        if (test_random(&seed) % 5 < 3) {
            answer = (struct status_store_answer){.ticket = pushed++};
            status_answers_push(&answers, &answer);
        } else if (status_answers_take(&answers, &answer)) {
            assert_int_equal(answer.ticket, taken++);
        }
    }
    status_answers_deinit(&answers);
}

static void lends_a_copy_of_the_outcome_until_the_next_take(void **state) {
    struct status_answers answers = {0};
    char result[] = "{\"a\":\0\"b\"}", text[] = "text";
    struct status_store_outcome outcome = {.state = STATUS_FAILED,
                                           .prompt_tokens = 3,
                                           .completion_tokens = -1,
                                           .error_code = "numeric",
                                           .text = text,
                                           .result = result,
                                           .result_bytes = sizeof result - 1};
    struct status_store_answer answer = {.ticket = 1, .sealed = &outcome};
    status_answers_push(&answers, &answer);
    status_answers_push(&answers, &answer); /* stays: deinit frees it */
    memset(result, 'x', sizeof result - 1);
    memset(text, 'x', sizeof text - 1);
    assert_true(status_answers_take(&answers, &answer));
    assert_ptr_not_equal(answer.sealed, &outcome);
    assert_int_equal(answer.sealed->state, STATUS_FAILED);
    assert_int_equal(answer.sealed->prompt_tokens, 3);
    assert_int_equal(answer.sealed->completion_tokens, -1);
    assert_string_equal(answer.sealed->error_code, "numeric");
    assert_null(answer.sealed->error_message);
    assert_string_equal(answer.sealed->text, "text");
    assert_int_equal(answer.sealed->result_bytes, sizeof result - 1);
    assert_memory_equal(answer.sealed->result, "{\"a\":\0\"b\"}", sizeof result);
    status_answers_deinit(&answers);
}

TEST_MAIN(cmocka_unit_test(gives_answers_in_the_order_they_came),
          cmocka_unit_test(lends_a_copy_of_the_outcome_until_the_next_take))
