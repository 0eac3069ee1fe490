/* A sequence: one admitted job while it is computed, from its prompt's tokens to its answer.
 *
 * Made by intake on the worker thread, moved through the command ring, then the engine thread's
 * alone. Owns the job, the tokens, the text so far and the list of its pages' numbers (not the
 * pages). Refuses to know batches, rings and devices; it says when an answer is complete and what
 * its event holds, and others act on that.
 *
 * The answer's ids are those sampled, in order, an end token included; the text is what a built-in
 * prompt began it with, then theirs without end tokens, cut before a stop string. */
#ifndef SOLFLEET_ENGINE_SEQUENCE_H
#define SOLFLEET_ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/decode_text.h"
#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/prompt_text.h"
#include "engine/repetition.h"
#include "engine/speculation.h"
#include "engine/tokenizer.h"
#include "schemas/job.h"

#define SEQUENCE_NO_SLOT UINT32_MAX

/* A token id that penalties look at. */
struct sequence_seen {
    int32_t id;
    int32_t count; /* times in the answer; 0 = in the prompt only */
};

struct sequence {
    uint64_t ticket;
    struct job job;                    /* owned */
    uint64_t tenant_number;            /* stands for the job's tenant, "" for none */
    const struct tokenizer *tokenizer; /* borrowed */

    int32_t *tokens; /* owned [prompt_tokens + answer_max]: the prompt, then the answer */
    uint32_t prompt_tokens;
    uint32_t shared_tokens; /* of the prompt's first ones: no byte of them came from a client */
    uint32_t answer_tokens;
    uint32_t answer_max; /* max_tokens, or less where the context ends before */

    const char *prompt_version; /* borrowed for good */
    struct decode_text decode;
    char *text;                            /* owned; decode's buffer */
    struct text_span stops[JOB_STOPS_MAX]; /* into job.params.stop */

    struct sequence_seen *seen; /* owned; ascending ids; NULL without penalties */
    uint32_t seen_count;

    struct speculation speculation;
    uint32_t draft_tokens; /* in this step: at `tokens` behind the known ones */

    struct repetition repetition; /* of the answer; off until the opener gives it a rule */

    uint32_t slot;       /* SEQUENCE_NO_SLOT unless it runs */
    struct kv_hold hold; /* owns the list [pages_max], not the pages */
    uint32_t pages_max;
    uint32_t placed_pages;    /* of those held: named in the batch's page table */
    uint32_t computed_tokens; /* positions that lie in its pages */
    uint32_t lost_tokens;     /* positions computed when it last gave its pages up */
    uint32_t cached_tokens;   /* of the prompt: computed before it first ran */

    int64_t admitted_ns, started_ns, first_token_ns;
    int64_t progress_ns;      /* of the last progress event */
    uint64_t progress_number; /* of it in the event ring */
    bool has_progress;
};

/* OK makes a sequence and moves *job into it; otherwise the job stays as it was. BAD: a stop string
 * that cannot be looked for; NO_MEMORY. */
enum text_status sequence_open(uint64_t ticket, struct job *job, const struct tokenizer *tokenizer,
                               const struct token_buffer *prompt, uint32_t answer_max,
                               struct sequence **out) __attribute__((warn_unused_result));
void sequence_close(struct sequence *sequence); /* accepts NULL */

/* The prompt was a built-in one: the answer's text begins with its opening, though no id of the
 * answer stands for that, and the event names its version. Before the first push. */
void sequence_set_prompt(struct sequence *sequence, const struct prompt_text *prompt);

/* The prompt for the books of the KV cache, borrowed from the sequence. */
struct kv_prompt sequence_kv_prompt(const struct sequence *sequence);

/* Pages for every position that will be computed: the last token drawn is never fed back. */
uint32_t sequence_page_need(uint32_t prompt_tokens, uint32_t answer_max);

/* What a drawn token means. */
enum sequence_state {
    SEQUENCE_GOES_ON,
    SEQUENCE_IS_FINISHED, /* *reason says how */
    SEQUENCE_HAS_NO_MEMORY
};
enum sequence_state sequence_push(struct sequence *sequence, int32_t token,
                                  enum finish_reason *reason) __attribute__((warn_unused_result));

/* Fill an event of a kind, as of now. */
void sequence_fill_started(const struct sequence *sequence, struct engine_event *event);
/* False when memory ran out: a progress event less does no harm. */
bool sequence_fill_progress(const struct sequence *sequence, struct engine_event *event)
    __attribute__((warn_unused_result));
/* Ends the text and moves it to the event: once, and last of all. Should memory run out, the event
 * says so instead of `reason`. */
void sequence_fill_finished(struct sequence *sequence, enum finish_reason reason,
                            struct engine_event *event);

#endif
