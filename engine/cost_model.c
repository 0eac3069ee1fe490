#include "engine/cost_model.h"

static void cost_model_note(struct cost_model_rate *rate, double total, double units) {
    if (rate->samples == COST_MODEL_MEMORY) {
        rate->samples /= 2;
        rate->total /= 2;
        rate->units /= 2;
    }
    rate->total += total;
    rate->units += units;
    rate->samples++;
}

static double cost_model_mean(const struct cost_model_rate *rate) {
    return rate->units > 0 ? rate->total / rate->units : 0;
}

void cost_model_note_step(struct cost_model *model, const struct cost_model_step *step) {
    double rows = (double)step->prefill_rows + step->decode_rows;
    if (step->prefill_rows > 0) {
        cost_model_note(&model->prefill, (double)step->ns * step->prefill_rows / rows,
                        (double)step->prefill_rows + step->cached_tokens);
    }
    if (step->decode_rows > 0) {
        cost_model_note(&model->step, (double)step->ns * step->decode_rows / rows, 1);
    }
}

void cost_model_note_answer(struct cost_model *model, uint32_t tokens) {
    cost_model_note(&model->answer, tokens, 1);
}

int64_t cost_model_least_ns(const struct cost_model *model,
                            const struct cost_model_arrival *arrival) {
    if (model->prefill.samples < COST_MODEL_SAMPLES_MIN ||
        model->step.samples < COST_MODEL_SAMPLES_MIN) {
        return 0;
    }
    double step_ns = cost_model_mean(&model->step);
    double prompt_tokens = (double)arrival->prompt_tokens_before + arrival->prompt_tokens;
    double ns = prompt_tokens * cost_model_mean(&model->prefill) + step_ns;
    uint64_t in_all = (uint64_t)arrival->running + arrival->sequences_before + 1;
    if (in_all > arrival->places_count && model->answer.samples >= COST_MODEL_SAMPLES_MIN) {
        double ends = (double)(in_all - arrival->places_count);
        ns += ends * cost_model_mean(&model->answer) * step_ns / arrival->places_count;
    }
    return (int64_t)(ns / 2);
}
