#include "schemas/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "schemas/utf8.h"

static const char *const names[ERROR_CODE_COUNT] = {
    [ERROR_NONE] = "none",
    [ERROR_INVALID_JSON] = "invalid_json",
    [ERROR_INVALID_UTF8] = "invalid_utf8",
    [ERROR_INVALID_FIELD] = "invalid_field",
    [ERROR_UNSUPPORTED_VERSION] = "unsupported_version",
    [ERROR_TOO_LARGE] = "too_large",
    [ERROR_PROMPT_TOO_LONG] = "prompt_too_long",
    [ERROR_EMPTY_PROMPT] = "empty_prompt",
    [ERROR_CONFLICT] = "conflict",
    [ERROR_EXPIRED] = "expired",
    [ERROR_INFEASIBLE] = "infeasible",
    [ERROR_CANCELLED] = "cancelled",
    [ERROR_POISON] = "poison",
    [ERROR_NUMERIC] = "numeric",
    [ERROR_ENGINE_FAILED] = "engine_failed",
    [ERROR_RESULT_TOO_LARGE] = "result_too_large",
    [ERROR_CONTENT_REJECTED] = "content_rejected",
    [ERROR_INTERNAL] = "internal",
};

const char *error_code_name(enum error_code code) {
    assert(code < ERROR_CODE_COUNT);
    return names[code];
}

bool error_code_parse(const char *name, enum error_code *out) {
    for (unsigned code = ERROR_NONE + 1; code < ERROR_CODE_COUNT; code++) {
        if (strcmp(name, names[code]) == 0) {
            *out = (enum error_code)code;
            return true;
        }
    }
    return false;
}

/* Copies text of any origin into a bounded field that must stay UTF-8: a bad byte becomes '?', and
 * what does not fit is cut before the code point it would have split. */
static void copy_text(char *out, size_t out_bytes, const char *text) {
    size_t left = strlen(text);
    size_t used = 0;
    while (left > 0) {
        const struct utf8_step step = utf8_next(text, left);
        if (used + step.bytes + 1 > out_bytes) {
            break;
        }
        if (step.kind == UTF8_WHOLE) {
            memcpy(out + used, text, step.bytes);
            used += step.bytes;
        } else {
            out[used++] = '?';
        }
        text += step.bytes;
        left -= step.bytes;
    }
    out[used] = '\0';
}

enum error_code error_set(struct job_error *error, enum error_code code, const char *field,
                          const char *format, ...) {
    /* Arguments may point into *error, so everything is formatted before anything is written. The
     * spare bytes let copy_text see the code point that the limit would cut. */
    char message[ERROR_MESSAGE_BYTES_MAX + UTF8_BYTES_MAX];
    char place[ERROR_FIELD_BYTES_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    copy_text(place, sizeof place, field == NULL ? "" : field);

    error->code = code;
    memcpy(error->field, place, sizeof place);
    copy_text(error->message, sizeof error->message, message);
    return code;
}
