/* A cost model: how long it takes, as measured, until a job that comes now has its first token.
 *
 * Pure: durations come in as arguments. One thread, the engine's; the caller's memory, nothing to
 * free. A rate is the mean over recent steps: each is worth half as much after COST_MODEL_MEMORY
 * more of them. Refuses to know clocks, deadlines and who waits.
 *
 * A step's time is split over its rows. A prompt's tokens that were found in the cache count as
 * tokens that cost nothing, so the rate is of prompts as they come.
 *
 *     queue    prompt tokens before it * prefill rate
 *            + sequences that must end before it has a place * mean answer * step / places
 *     prefill  its own prompt tokens * prefill rate
 *     token    one step
 *
 * It is infeasible only if half of all that is longer than the time left, and only once the rates
 * that are needed have COST_MODEL_SAMPLES_MIN samples; a mean answer with fewer counts as none. */
#ifndef SOLFLEET_ENGINE_COST_MODEL_H
#define SOLFLEET_ENGINE_COST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define COST_MODEL_SAMPLES_MIN 32
#define COST_MODEL_MEMORY 256 /* samples */

struct cost_model_rate {
    double total, units;
    uint32_t samples; /* no more than COST_MODEL_MEMORY */
};

struct cost_model {
    struct cost_model_rate prefill; /* ns a prompt token */
    struct cost_model_rate step;    /* ns a step's rows of answers */
    struct cost_model_rate answer;  /* tokens an answer */
};

/* A step that took so long: rows of prompts, rows of answers, prompt tokens that were cached. */
struct cost_model_step {
    int64_t ns;
    uint32_t prefill_rows, decode_rows, cached_tokens;
};
void cost_model_note_step(struct cost_model *model, const struct cost_model_step *step);
void cost_model_note_answer(struct cost_model *model, uint32_t tokens);

/* What a job finds that comes now. */
struct cost_model_arrival {
    uint32_t prompt_tokens;
    uint64_t prompt_tokens_before;
    uint32_t sequences_before;      /* waiting ones that start before it */
    uint32_t running, places_count; /* sequences running; that can run */
};

/* Half the time until its first token; 0 while too little is known. */
int64_t cost_model_least_ns(const struct cost_model *model,
                            const struct cost_model_arrival *arrival);

#endif
