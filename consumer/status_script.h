/* The scripts that change statuses on the Redis server: one call takes the keys of a whole poll or
 * delivery batch, and treats each key alone.
 *
 * All are idempotent, so a call that may or may not have been applied can be made again, and
 * monotone: a terminal state never changes, the first one wins; so does the first seal. Each change
 * of state and each progress is published on the id's channel. Static text, any thread. Refuses to
 * know connections. tests/support/status_model is the same in C. */
#ifndef SOLFLEET_CONSUMER_STATUS_SCRIPT_H
#define SOLFLEET_CONSUMER_STATUS_SCRIPT_H

#include <stdint.h>

/* KEYS: the hashes. ARGV: STATUS_SCRIPT_SHARED_ARGS for all, then so many for each key, in the
 * order given here. The reply is an array with an element for each key: a code, or an array that
 * begins with one. "" leaves a field as it is; attempt "0" or "" = unknown.
 *
 * Shared: life of the key in seconds, key prefix, worker, owner ("WORKER/INCARNATION"), lease in
 * ms.
 *
 * RELEASE  attempt
 *          -> 1: nobody's now; 0: it was not ours in this attempt.
 * ADVANCE  attempt, started_at, prompt_tokens, completion_tokens, text
 *          -> 1: running; 0: terminal, sealed, another's, or another attempt.
 * SEAL     outcome, fingerprint, attempt, started_at, finished_at, prompt_tokens,
 *          completion_tokens, error_code, error_message, text, result
 *          -> 1; 0: terminal already; CONFLICT; {SEALED, outcome…}: what stands there.
 * FINISH   state, fingerprint, attempt, finished_at, prompt_tokens, completion_tokens, error_code,
 *          error_message, result_topic, result_partition, result_offset, text, keep, result
 *          keep: "0" = the result does not stay; "1" = it is given; "2" = all but the place of the
 *          result stands sealed, or else it is given
 *          -> 1; 0: terminal already; CONFLICT; MISSING: it neither stands nor is given.
 * REPAIR   as FINISH, of a result that was read from its topic: finished_at is when it came there,
 *          keep is "0" or "1". Of a job that was sent again since (`replayed`, queued_at) it says
 *          nothing; a failure that a repair wrote gives way to what its partition has behind it.
 *          -> 1; 0: terminal already, or sent again since; CONFLICT.
 * RENEW    attempt
 *          -> 1: held for another lease; 2: so, and cancelling is asked for; 0: lost.
 * CLAIM    claim ("PARTITION:OFFSET:EPOCH"), fingerprint, "job" or "queued", queued_at
 *          -> attempt (> 0): ours, nothing special; {NEW, attempt, deaths, cancel 0|1};
 *          {SEALED, attempt, deaths, cancel, outcome…}; {POISON, attempt, deaths, cancel};
 *          {HERE, attempt}; {ELSEWHERE, lease left in ms}; 0: terminal already; CONFLICT.
 *
 * All: NONE: the key is no hash (CLAIM: or, asked with "queued", no such state stands there).
 * outcome…: sealed, finished_at, prompt_tokens, completion_tokens, error_code, error_message, text,
 * result; nil where absent.
 *
 * The order is the one in which calls of one flush are sent. */
enum status_script {
    STATUS_SCRIPT_RELEASE,
    STATUS_SCRIPT_ADVANCE,
    STATUS_SCRIPT_SEAL,
    STATUS_SCRIPT_FINISH,
    STATUS_SCRIPT_REPAIR,
    STATUS_SCRIPT_RENEW,
    STATUS_SCRIPT_CLAIM
};

#define STATUS_SCRIPT_COUNT 7
#define STATUS_SCRIPT_SHARED_ARGS 5
#define STATUS_SCRIPT_OUTCOME_FIELDS 8

enum status_script_code {
    STATUS_SCRIPT_LOST = 0, /* or terminal already */
    STATUS_SCRIPT_CONFLICT = -1,
    STATUS_SCRIPT_NONE = -2,
    STATUS_SCRIPT_MISSING = -3,
    STATUS_SCRIPT_NEW = -4,
    STATUS_SCRIPT_SEALED = -5,
    STATUS_SCRIPT_POISON = -6,
    STATUS_SCRIPT_HERE = -7,
    STATUS_SCRIPT_ELSEWHERE = -8
};

/* So many owners that died while they ran a job make it poison. */
#define STATUS_SCRIPT_POISON_DEATHS 3

const char *status_script_text(enum status_script script);
uint32_t status_script_args_per_key(enum status_script script);

#endif
