#include "consumer/params_config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "consumer/config.h"
#include "schemas/job.h"
#include "schemas/job_params.h"

static bool params_config_stop_tokens(const char *list, struct job_params *out, char *err,
                                      size_t err_bytes) {
    const char *at = list;
    while (*at != '\0') {
        char *end;
        long long id = strtoll(at, &end, 10);
        if (!isdigit((unsigned char)*at) || (*end != ',' && *end != '\0') || id > INT32_MAX) {
            snprintf(err, err_bytes,
                     "--default-stop-token-ids: '%s' is no list of token ids such as 2,32000",
                     list);
            return false;
        }
        if (out->stop_token_count == JOB_STOP_TOKENS_MAX) {
            snprintf(err, err_bytes, "--default-stop-token-ids: more than %d ids",
                     JOB_STOP_TOKENS_MAX);
            return false;
        }
        out->stop_token_ids[out->stop_token_count++] = (int32_t)id;
        at = *end == ',' ? end + 1 : end;
    }
    return true;
}

bool params_config_read(const struct config *config, struct job_params *out, char *err,
                        size_t err_bytes) {
    job_params_init(out);
    out->max_tokens = (uint32_t)config->default_max_tokens;
    out->temperature = (float)config->default_temperature;
    out->top_p = (float)config->default_top_p;
    out->top_k = (uint32_t)config->default_top_k;
    out->min_p = (float)config->default_min_p;
    out->repetition_penalty = (float)config->default_repetition_penalty;
    out->presence_penalty = (float)config->default_presence_penalty;
    out->frequency_penalty = (float)config->default_frequency_penalty;
    return params_config_stop_tokens(config->default_stop_token_ids, out, err, err_bytes);
}
