#include "consumer/topics_hint.h"

#include <stdio.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/config_table.h"

static const char *topics_hint_usual_name(const char *option) {
    for (size_t i = 0; i < config_table_option_count; i++) {
        if (strcmp(config_table_options[i].name, option) == 0) {
            return config_table_options[i].fallback;
        }
    }
    return "";
}

void topics_hint_missing(const struct config *config, const char *topic, char *out,
                         size_t out_bytes) {
    bool is_of_jobs = config->topics != NULL && config_list_has(config->topics, topic);
    const struct {
        const char *option, *flag, *name;
    } topics[] = {
        {"jobs_topic", "--jobs-topic", is_of_jobs ? topic : config->jobs_topic},
        {"results_topic", "--results-topic", config->results_topic},
        {"dead_letter_topic", "--dead-letter-topic", config->dead_letter_topic},
    };
    size_t used = (size_t)snprintf(
        out, out_bytes,
        "topic '%s' does not exist; make it with: solfleet topics create --brokers %s", topic,
        config->brokers);
    for (size_t i = 0; i < sizeof topics / sizeof topics[0] && used < out_bytes; i++) {
        if (strcmp(topics[i].name, topics_hint_usual_name(topics[i].option)) != 0) {
            used += (size_t)snprintf(out + used, out_bytes - used, " %s %s", topics[i].flag,
                                     topics[i].name);
        }
    }
}
