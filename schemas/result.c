#include "schemas/result.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/job_params.h"

const char *result_status_name(enum result_status status) {
    static const char *const names[] = {[RESULT_DONE] = "done",
                                        [RESULT_FAILED] = "failed",
                                        [RESULT_EXPIRED] = "expired",
                                        [RESULT_CANCELLED] = "cancelled"};
    assert(status <= RESULT_CANCELLED);
    return names[status];
}

static void hash_u32(struct sha256 *hash, uint32_t value) {
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                              (uint8_t)(value >> 24)};
    sha256_update(hash, bytes, sizeof bytes);
}

bool result_answer_sha256(const int32_t *tokens, uint32_t token_count, const char *text,
                          enum finish_reason reason, char hex[SHA256_HEX_BYTES]) {
    const char *reason_name = finish_reason_name(reason);
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&hash);
    hash_u32(&hash, token_count);
    for (uint32_t i = 0; i < token_count; i++) {
        hash_u32(&hash, (uint32_t)tokens[i]);
    }
    sha256_update(&hash, text, strlen(text) + 1);
    sha256_update(&hash, reason_name, strlen(reason_name));
    if (!sha256_finish(&hash, digest)) {
        return false;
    }
    sha256_hex(digest, hex);
    return true;
}

void result_init(struct result *result) {
    *result = (struct result){.timings = {-1, -1, -1, -1}};
}

void result_deinit(struct result *result) {
    free(result->solution.analysis);
    free(result->solution.time_complexity);
    free(result->solution.space_complexity);
    free(result->solution.code);
    free(result->solution.pitfalls);
    free(result->text);
    free(result->metadata);
    job_params_deinit(&result->params);
    *result = (struct result){0};
}
