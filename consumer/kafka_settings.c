#include "consumer/kafka_settings.h"

#include <stdio.h>
#include <string.h>

#include "consumer/config.h"

static bool kafka_settings_set(rd_kafka_conf_t *conf, const char *name, const char *value,
                               char *err, size_t err_bytes) {
    char said[256];
    rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, said, sizeof said);
    if (result == RD_KAFKA_CONF_OK) {
        return true;
    }
    snprintf(err, err_bytes, "kafka.%s: %s", name, said);
    return false;
}

static bool kafka_settings_is_among(const struct config_pass *list, size_t count,
                                    const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool kafka_settings_fill(rd_kafka_conf_t *conf, const struct config *config,
                                const struct config_pass *fixed, size_t fixed_count, char *err,
                                size_t err_bytes) {
    bool ok = kafka_settings_set(conf, "bootstrap.servers", config->brokers, err, err_bytes) &&
              kafka_settings_set(conf, "client.id", "solfleet", err, err_bytes);
    for (size_t i = 0; ok && i < fixed_count; i++) {
        ok = kafka_settings_set(conf, fixed[i].name, fixed[i].value, err, err_bytes);
    }
    for (size_t i = 0; ok && i < config->kafka_count; i++) {
        const struct config_pass *pass = &config->kafka[i];
        if (!config->unsafe && kafka_settings_is_among(fixed, fixed_count, pass->name)) {
            snprintf(err, err_bytes,
                     "kafka.%s is fixed by solfleet because delivery rests on it; "
                     "--unsafe lets it be changed",
                     pass->name);
            return false;
        }
        ok = kafka_settings_set(conf, pass->name, pass->value, err, err_bytes);
    }
    return ok;
}

rd_kafka_conf_t *kafka_settings_make(const struct config *config, const struct config_pass *fixed,
                                     size_t fixed_count, char *err, size_t err_bytes) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (!kafka_settings_fill(conf, config, fixed, fixed_count, err, err_bytes)) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    return conf;
}

bool kafka_settings_default(rd_kafka_conf_t *conf, const struct config *config, const char *name,
                            const char *value, char *err, size_t err_bytes) {
    return kafka_settings_is_among(config->kafka, config->kafka_count, name) ||
           kafka_settings_set(conf, name, value, err, err_bytes);
}
