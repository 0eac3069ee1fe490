/* Whatever a server says to a script call gives answers in range, or is refused as a whole: never a
 * crash, never a state that is none. The first byte says which script; the rest are its bytes. */
#include <assert.h>
#include <hiredis/hiredis.h>
#include <string.h>

#include "consumer/status_answers.h"
#include "consumer/status_reply.h"
#include "tests/fuzz/fuzz.h"

static void check_outcome(const struct status_store_outcome *outcome) {
    assert(status_state_is_terminal(outcome->state));
    assert(outcome->prompt_tokens >= -1 && outcome->completion_tokens >= -1);
    assert(outcome->finished_unix_ms >= -1);
    assert(outcome->result != NULL && outcome->result[outcome->result_bytes] == '\0');
}

static void check_answer(const struct status_store_answer *answer) {
    bool is_elsewhere =
        answer->kind == STATUS_STORE_CLAIM && answer->claimed == STATUS_STORE_RUNNING_ELSEWHERE;
    bool is_sealed =
        (answer->kind == STATUS_STORE_CLAIM && answer->claimed == STATUS_STORE_SEALED) ||
        (answer->kind == STATUS_STORE_SEAL && answer->seal == STATUS_STORE_SEALED_BEFORE);
    assert((answer->lease_left_ms > 0) == is_elsewhere);
    assert(answer->attempt <= INT32_MAX && answer->deaths <= INT32_MAX);
    assert((answer->sealed != NULL) == is_sealed);
    if (answer->sealed != NULL) {
        check_outcome(answer->sealed);
    }
}

static void read_answers(enum status_script script, const redisReply *said) {
    struct status_answers answers = {0};
    struct status_link_reply reply = {
        .kind = STATUS_LINK_LIST, .list = said, .count = said->elements};
    for (size_t i = 0; i < said->elements; i++) {
        struct status_reply one;
        if (status_reply_read(&one, script, &reply, i)) {
            check_answer(&one.answer);
            status_answers_push(&answers, &one.answer);
        }
    }
    for (struct status_store_answer answer; status_answers_take(&answers, &answer);) {
        check_answer(&answer);
    }
    status_answers_deinit(&answers);
}

/* The client library makes room for as many elements as are announced. */
static bool announces_too_much(const uint8_t *data, size_t size) {
    uint32_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
        if (digits > 5 && i >= digits && data[i - digits] == '*') {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t data_bytes) {
    if (data_bytes < 2 || announces_too_much(data + 1, data_bytes - 1)) {
        return 0;
    }
    redisReader *reader = redisReaderCreate();
    void *said = NULL;
    redisReaderFeed(reader, (const char *)data + 1, data_bytes - 1);
    if (redisReaderGetReply(reader, &said) == REDIS_OK && said != NULL &&
        ((redisReply *)said)->type == REDIS_REPLY_ARRAY) {
        read_answers((enum status_script)(data[0] % STATUS_SCRIPT_COUNT), said);
    }
    if (said != NULL) {
        freeReplyObject(said);
    }
    redisReaderFree(reader);
    return 0;
}
