/* The scripts that change statuses on the Redis server: one call takes the keys of a whole poll or
 * delivery batch, and treats each key alone.
 *
 * All are idempotent, so a call that may or may not have been applied can be made again, and
 * monotone: a terminal state never changes, the first one wins. Static text, any thread. Refuses to
 * know connections. */
#ifndef SOLFLEET_CONSUMER_STATUS_SCRIPT_H
#define SOLFLEET_CONSUMER_STATUS_SCRIPT_H

#include <stdint.h>

/* KEYS: the hashes. ARGV: STATUS_SCRIPT_SHARED_ARGS for all, then so many for each key, in the
 * order given here. The reply is an array with an integer for each key. "" leaves a field as it is.
 *
 * Shared: life of the key in seconds, key prefix, worker.
 * CLAIM    fingerprint, "job" or "queued", queued_at
 *          -> attempt (> 0): ours to work on; 0: terminal already; STATUS_SCRIPT_CONFLICT: the key
 *          belongs to another record; STATUS_SCRIPT_NONE: the key is no hash, or, asked with
 *          "queued", no such state stands there.
 * ADVANCE  attempt (0 = unknown), started_at, prompt_tokens, completion_tokens, text
 *          -> 1; 0: terminal, or another attempt runs
 * FINISH   state, fingerprint, attempt, finished_at, prompt_tokens, completion_tokens, error_code,
 *          error_message, result_topic, result_partition, result_offset, text, result
 *          -> 1; 0: terminal already */
enum status_script { STATUS_SCRIPT_CLAIM, STATUS_SCRIPT_ADVANCE, STATUS_SCRIPT_FINISH };

#define STATUS_SCRIPT_COUNT 3
#define STATUS_SCRIPT_SHARED_ARGS 3
#define STATUS_SCRIPT_CONFLICT (-1)
#define STATUS_SCRIPT_NONE (-2)

const char *status_script_text(enum status_script script);
uint32_t status_script_args_per_key(enum status_script script);

#endif
