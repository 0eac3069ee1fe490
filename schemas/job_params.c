#include "schemas/job_params.h"

#include <stdlib.h>
#include <string.h>

#define TOP_K_MAX 1000000
#define PENALTY_MAX 2.0

static const struct job_params defaults = {.max_tokens = JOB_MAX_TOKENS_DEFAULT,
                                           .temperature = 0.7f,
                                           .top_p = 0.95f,
                                           .top_k = 50,
                                           .repetition_penalty = 1.0f};

void job_params_init(struct job_params *params) {
    *params = defaults;
}

void job_params_deinit(struct job_params *params) {
    for (uint32_t i = 0; i < params->stop_count; i++) {
        free(params->stop[i]);
    }
    *params = (struct job_params){0};
}

/* ---- decoding ---- */

/* Bounds are checked on the double that was written; the rounding to f32 happens here only. */
static float read_float(const struct json_node *object, const char *name, double min, double max,
                        float absent, struct job_error *error) {
    return (float)json_get_double(object, name, min, max, (double)absent, error);
}

/* For bounds that exclude zero, whatever rounds to zero in f32 included. */
static float read_positive(const struct json_node *object, const char *name, double max,
                           float absent, struct job_error *error) {
    const float value = read_float(object, name, 0, max, absent, error);
    if (value > 0) {
        return value;
    }
    json_fail(error, ERROR_INVALID_FIELD, object, name, "must be greater than 0 and at most %g",
              max);
    return absent;
}

static void decode_stops(const struct json_node *object, struct job_params *params,
                         struct job_error *error) {
    const struct json_node *array = json_get_array(object, "stop", JOB_STOPS_MAX, error);
    if (array == NULL) {
        return;
    }
    for (const struct json_node *value = json_first(array); value != NULL;
         value = json_next(array, value)) {
        char *text = json_to_text(value, JOB_STOP_BYTES_MAX, error);
        if (text == NULL) {
            return;
        }
        params->stop[params->stop_count++] = text;
        if (text[0] == '\0') {
            json_fail(error, ERROR_INVALID_FIELD, value, NULL, "must not be empty");
            return;
        }
    }
}

static void decode_stop_tokens(const struct json_node *object, struct job_params *params,
                               struct job_error *error) {
    const struct json_node *array =
        json_get_array(object, "stop_token_ids", JOB_STOP_TOKENS_MAX, error);
    if (array == NULL) {
        return;
    }
    params->stop_token_count = 0; /* instead of the defaults */
    for (const struct json_node *value = json_first(array); value != NULL;
         value = json_next(array, value)) {
        params->stop_token_ids[params->stop_token_count++] =
            (int32_t)json_to_int(value, 0, INT32_MAX, error);
    }
}

/* Names that other systems give a meaning to: ignoring them would answer another question. */
static void refuse_reserved(const struct json_node *object, struct job_error *error) {
    static const char *const reserved[] = {"n", "logprobs"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (json_member(object, reserved[i]) != NULL) {
            json_fail(error, ERROR_INVALID_FIELD, object, reserved[i], "is not supported");
        }
    }
}

void job_params_decode(const struct json_node *object, struct job_params *params,
                       struct job_error *error) {
    if (object == NULL) {
        return;
    }
    struct job_params *p = params;
    refuse_reserved(object, error);
    p->max_tokens =
        (uint32_t)json_get_int(object, "max_tokens", 1, JOB_MAX_TOKENS_MAX, p->max_tokens, error);
    p->temperature = read_float(object, "temperature", 0, 2, p->temperature, error);
    p->top_p = read_positive(object, "top_p", 1, p->top_p, error);
    p->top_k = (uint32_t)json_get_int(object, "top_k", 0, TOP_K_MAX, p->top_k, error);
    p->min_p = read_float(object, "min_p", 0, 1, p->min_p, error);
    p->repetition_penalty =
        read_positive(object, "repetition_penalty", PENALTY_MAX, p->repetition_penalty, error);
    p->presence_penalty = read_float(object, "presence_penalty", -PENALTY_MAX, PENALTY_MAX,
                                     p->presence_penalty, error);
    p->frequency_penalty = read_float(object, "frequency_penalty", -PENALTY_MAX, PENALTY_MAX,
                                      p->frequency_penalty, error);
    p->seed_given = json_member(object, "seed") != NULL;
    p->seed = (uint64_t)json_get_int(object, "seed", 0, (int64_t)JOB_SEED_MAX, 0, error);
    decode_stops(object, p, error);
    decode_stop_tokens(object, p, error);
}

/* ---- encoding ---- */

static void put_uint(struct json_writer *writer, const char *key, uint64_t value, bool wanted) {
    if (wanted) {
        json_writer_key(writer, key);
        json_writer_uint(writer, value);
    }
}

static void put_float(struct json_writer *writer, const char *key, float value, bool wanted) {
    if (wanted) {
        json_writer_key(writer, key);
        json_writer_float(writer, value);
    }
}

static void put_stops(struct json_writer *writer, const struct job_params *params, bool complete) {
    if (complete || params->stop_count > 0) {
        json_writer_key(writer, "stop");
        json_writer_begin_array(writer);
        for (uint32_t i = 0; i < params->stop_count; i++) {
            json_writer_string(writer, params->stop[i]);
        }
        json_writer_end_array(writer);
    }
    if (complete || params->stop_token_count > 0) {
        json_writer_key(writer, "stop_token_ids");
        json_writer_begin_array(writer);
        for (uint32_t i = 0; i < params->stop_token_count; i++) {
            json_writer_int(writer, params->stop_token_ids[i]);
        }
        json_writer_end_array(writer);
    }
}

void job_params_encode(struct json_writer *writer, const struct job_params *params, bool complete) {
    const struct job_params *p = params, *d = &defaults;
    json_writer_begin_object(writer);
    put_uint(writer, "max_tokens", p->max_tokens, complete || p->max_tokens != d->max_tokens);
    put_float(writer, "temperature", p->temperature, complete || p->temperature != d->temperature);
    put_float(writer, "top_p", p->top_p, complete || p->top_p != d->top_p);
    put_uint(writer, "top_k", p->top_k, complete || p->top_k != d->top_k);
    put_float(writer, "min_p", p->min_p, complete || p->min_p != d->min_p);
    put_float(writer, "repetition_penalty", p->repetition_penalty,
              complete || p->repetition_penalty != d->repetition_penalty);
    put_float(writer, "presence_penalty", p->presence_penalty,
              complete || p->presence_penalty != d->presence_penalty);
    put_float(writer, "frequency_penalty", p->frequency_penalty,
              complete || p->frequency_penalty != d->frequency_penalty);
    put_uint(writer, "seed", p->seed, complete || p->seed_given);
    put_stops(writer, p, complete);
    json_writer_end_object(writer);
}

bool job_params_copy(const struct job_params *params, struct job_params *copy) {
    *copy = *params;
    copy->stop_count = 0;
    for (uint32_t i = 0; i < params->stop_count; i++) {
        copy->stop[i] = strdup(params->stop[i]);
        if (copy->stop[i] == NULL) {
            job_params_deinit(copy);
            return false;
        }
        copy->stop_count++;
    }
    return true;
}
