#include "consumer/result_limits.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/result.h"
#include "schemas/utf8.h"

/* The bytes of the code points that lie wholly within the first `bytes` of a valid text. */
static size_t result_limits_whole(const char *text, size_t bytes) {
    size_t whole = bytes;
    while (whole > 0 && ((unsigned char)text[whole] & 0xC0) == 0x80) {
        whole--;
    }
    return whole;
}

/* The result with the first `keep` bytes of its text; NULL when it has more than bytes_max. */
static char *result_limits_try(struct result *result, size_t keep, size_t bytes_max,
                               size_t *out_bytes) {
    size_t whole = result_limits_whole(result->text, keep);
    char ended = result->text[whole];
    result->text[whole] = '\0';
    char *bytes = result_encode(result, out_bytes);
    result->text[whole] = ended;
    if (bytes != NULL && *out_bytes > bytes_max) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* The longest text that fits: how much a code point needs in JSON differs, so it is searched for.
 * Known: `fits` bytes of it fit, `beyond` do not. */
static char *result_limits_search(struct result *result, char *best, size_t beyond,
                                  size_t bytes_max, size_t *out_bytes) {
    size_t fits = 0;
    while (beyond - fits > UTF8_BYTES_MAX) {
        size_t keep = fits + (beyond - fits) / 2, size;
        char *bytes = result_limits_try(result, keep, bytes_max, &size);
        if (bytes == NULL) {
            beyond = keep;
            continue;
        }
        free(best);
        best = bytes;
        *out_bytes = size;
        fits = keep;
    }
    return best;
}

static char *result_limits_cut(struct result *result, size_t bytes_max, size_t *out_bytes) {
    size_t text_bytes = strlen(result->text);
    result->truncated = true;
    result->cut.present = true;
    if (result->cut.text_bytes == 0) { /* else it has been cut before */
        result->cut.text_bytes = text_bytes;
    }
    result->cut.solution |= result->solution.present;
    result->solution.present = false;
    char *whole = result_limits_try(result, text_bytes, bytes_max, out_bytes);
    if (whole != NULL) {
        return whole;
    }
    char *empty = result_limits_try(result, 0, bytes_max, out_bytes);
    return empty != NULL ? result_limits_search(result, empty, text_bytes, bytes_max, out_bytes)
                         : NULL;
}

char *result_limits_shorten(const char *result, size_t result_bytes, size_t bytes_max,
                            size_t *out_bytes) {
    struct result decoded;
    struct job_error error;
    if (result_decode(result, result_bytes, &decoded, &error) != ERROR_NONE) {
        return NULL;
    }
    char *bytes = decoded.text != NULL ? result_limits_cut(&decoded, bytes_max, out_bytes) : NULL;
    result_deinit(&decoded);
    return bytes;
}
