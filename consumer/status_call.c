#include "consumer/status_call.h"

#include <inttypes.h>
#include <stdio.h>

/* A number, or "" where it is `none`. */
static void status_call_put(struct status_command *command, int64_t value, int64_t none) {
    if (value == none) {
        status_command_string(command, NULL);
    } else {
        status_command_int(command, value);
    }
}

void status_call_claim(struct status_command *command, const struct status_store_claim *claim) {
    char source[64];
    snprintf(source, sizeof source, "%" PRId32 ":%" PRId64 ":%" PRIu64, claim->source.partition,
             claim->source.offset, claim->source.epoch);
    status_command_string(command, source);
    status_command_string(command, claim->fingerprint);
    status_command_string(command, claim->only_if_queued ? "queued" : "job");
    status_command_int(command, claim->queued_unix_ms);
}

void status_call_advance(struct status_command *command,
                         const struct status_store_advance *advance) {
    status_command_int(command, advance->attempt);
    status_call_put(command, advance->started_unix_ms, -1);
    status_command_int(command, advance->prompt_tokens);
    status_command_int(command, advance->completion_tokens);
    status_command_string(command, advance->text);
}

void status_call_seal(struct status_command *command, const struct status_store_finish *finish) {
    status_command_string(command, status_state_name(finish->state));
    status_command_string(command, finish->fingerprint);
    status_call_put(command, finish->attempt, 0);
    status_call_put(command, finish->started_unix_ms, -1);
    status_command_int(command, finish->finished_unix_ms);
    status_call_put(command, finish->prompt_tokens, -1);
    status_call_put(command, finish->completion_tokens, -1);
    status_command_string(command, finish->error_code);
    status_command_string(command, finish->error_message);
    status_command_string(command, finish->text);
    status_command_text(command, finish->result, finish->result_bytes);
}

void status_call_finish(struct status_command *command, const struct status_store_finish *finish,
                        size_t result_bytes_max) {
    bool is_published = finish->result_topic != NULL;
    bool stays = finish->result != NULL && finish->result_bytes <= result_bytes_max;
    status_command_string(command, status_state_name(finish->state));
    status_command_string(command, finish->fingerprint);
    status_call_put(command, finish->attempt, 0);
    status_command_int(command, finish->finished_unix_ms);
    status_call_put(command, finish->prompt_tokens, -1);
    status_call_put(command, finish->completion_tokens, -1);
    status_command_string(command, finish->error_code);
    status_command_string(command, finish->error_message);
    status_command_string(command, finish->result_topic);
    status_call_put(command, is_published ? finish->result_partition : -1, -1);
    status_call_put(command, is_published ? finish->result_offset : -1, -1);
    status_command_string(command, finish->text);
    status_command_string(command, !stays ? "0" : finish->is_sealed ? "2" : "1");
    status_command_spare(command, stays ? finish->result : NULL, stays ? finish->result_bytes : 0,
                         stays && finish->is_sealed);
}
