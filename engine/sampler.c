#include "engine/sampler.h"

#include <assert.h>
#include <math.h>

#define SAMPLER_Q16 65536.0f
#define SAMPLER_TOP_P_OFF 65536u
#define SAMPLER_TOP_P_MAX 65535u

static uint32_t sampler_top_p(float top_p) {
    uint32_t q16 = (uint32_t)rintf(top_p * SAMPLER_Q16);
    if (top_p >= 1.0f) {
        return SAMPLER_TOP_P_OFF;
    }
    return q16 < SAMPLER_TOP_P_MAX ? q16 : SAMPLER_TOP_P_MAX;
}

uint32_t sampler_add(struct batch *batch, const struct sequence *sequence, uint32_t row,
                     uint32_t ahead) {
    const struct job_params *params = &sequence->job.params;
    uint32_t index = batch_add_sampled(batch, row);
    batch->temperature[index] = params->temperature;
    batch->top_k[index] = params->top_k;
    batch->top_p_q16[index] = sampler_top_p(params->top_p);
    batch->min_p_q16[index] = (uint32_t)rintf(params->min_p * SAMPLER_Q16);
    batch->repetition[index] = params->repetition_penalty;
    batch->presence[index] = params->presence_penalty;
    batch->frequency[index] = params->frequency_penalty;
    batch->seed[index] = params->seed;
    batch->draw_position[index] = sequence->prompt_tokens + sequence->answer_tokens + ahead;
    for (uint32_t i = 0; i < sequence->seen_count; i++) {
        batch_add_seen(batch, sequence->seen[i].id, sequence->seen[i].count);
    }
    return index;
}
