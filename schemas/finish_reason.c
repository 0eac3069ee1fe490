#include "schemas/finish_reason.h"

#include <assert.h>

const char *finish_reason_name(enum finish_reason reason) {
    static const char *const names[FINISH_REASON_COUNT] = {
        [FINISH_STOP] = "stop",
        [FINISH_LENGTH] = "length",
        [FINISH_REPETITION] = "repetition",
        [FINISH_DEADLINE] = "deadline",
        [FINISH_CANCELLED] = "cancelled",
        [FINISH_ERROR] = "error",
    };
    assert(reason < FINISH_REASON_COUNT);
    return names[reason];
}
