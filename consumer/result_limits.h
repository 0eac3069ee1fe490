/* How a result is made to fit a topic that does not take it as it is.
 *
 * First its solution is left out, since the text says the same; then the text is cut, between two
 * code points, to what fits. The result says so itself: `truncated`, and `cut` with the size that
 * the text had; `answer_sha256` stays that of the whole answer. Pure: bytes in, bytes out, any
 * thread. Refuses to know topics, and what becomes of a result that cannot be shortened. */
#ifndef SOLFLEET_CONSUMER_RESULT_LIMITS_H
#define SOLFLEET_CONSUMER_RESULT_LIMITS_H

#include <stddef.h>

/* A result's bytes of at most bytes_max, owned by the caller. NULL when that is not possible: it
 * has no text, or what stands around the text is too large already; or memory ran out. */
char *result_limits_shorten(const char *result, size_t result_bytes, size_t bytes_max,
                            size_t *out_bytes);

#endif
