#include "consumer/kafka_consumer_settings.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/kafka_settings.h"

#define COOPERATIVE_VERSION_MIN 0x020a0000 /* before, a commit could drop the whole assignment */
#define SESSION_MS_DEFAULT 45000           /* librdkafka's */
#define HEARTBEAT_MS_DEFAULT 3000

const struct config_pass kafka_consumer_settings_fixed[] = {
    {"auto.offset.reset", "earliest"}, /* else what comes first in a new partition is lost */
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"enable.partition.eof", "true"}, /* commits control records at a partition's end */
    {"allow.auto.create.topics", "false"},
    {"topic.metadata.refresh.interval.ms", "10000"}, /* until a new partition is seen */
};
const size_t kafka_consumer_settings_fixed_count =
    sizeof kafka_consumer_settings_fixed / sizeof kafka_consumer_settings_fixed[0];

/* The last value of `kafka.NAME`; NULL = not given. */
static const char *kafka_consumer_settings_given(const struct config *config, const char *name) {
    const char *value = NULL;
    for (size_t i = 0; i < config->kafka_count; i++) {
        value = strcmp(config->kafka[i].name, name) == 0 ? config->kafka[i].value : value;
    }
    return value;
}

/* The group's coordinator assigns, and has session and heartbeat in its own settings. */
static bool kafka_consumer_settings_is_new_protocol(const struct config *config) {
    const char *protocol = kafka_consumer_settings_given(config, "group.protocol");
    return protocol != NULL && strcasecmp(protocol, "consumer") == 0;
}

const char *kafka_consumer_settings_refusal(const struct config *config, int version) {
    const char *assignor = kafka_consumer_settings_given(config, "partition.assignment.strategy");
    if (version >= COOPERATIVE_VERSION_MIN) {
        return NULL;
    }
    if (assignor != NULL && strstr(assignor, "cooperative") != NULL) {
        return "kafka.partition.assignment.strategy: cooperative-sticky needs librdkafka 2.10; use "
               "range or roundrobin";
    }
    if (kafka_consumer_settings_is_new_protocol(config)) {
        return "kafka.group.protocol: consumer needs librdkafka 2.10; use classic";
    }
    return NULL;
}

int64_t kafka_consumer_settings_session_ms(const struct config *config) {
    const char *given = kafka_consumer_settings_given(config, "session.timeout.ms");
    long session_ms = given != NULL ? strtol(given, NULL, 10) : 0;
    return session_ms > 0 ? session_ms : SESSION_MS_DEFAULT;
}

/* A third of the session time-out at most: with a short session alone, librdkafka's own three
 * seconds would lose the session between two heartbeats, without a word. */
static void kafka_consumer_settings_heartbeat(const struct config *config, char *out,
                                              size_t out_bytes) {
    int64_t third_ms = kafka_consumer_settings_session_ms(config) / 3;
    int64_t interval_ms = third_ms < HEARTBEAT_MS_DEFAULT ? third_ms : HEARTBEAT_MS_DEFAULT;
    snprintf(out, out_bytes, "%d", (int)(interval_ms > 0 ? interval_ms : 1));
}

static bool kafka_consumer_settings_soften(rd_kafka_conf_t *conf, const struct config *config,
                                           char *err, size_t err_bytes) {
    char heartbeat[24];
    kafka_consumer_settings_heartbeat(config, heartbeat, sizeof heartbeat);
    /* Small fetches: the bound on prefetched bytes is loose and grows with partitions. Eager
     * assignment: members of both kinds cannot share a group, so the one that every librdkafka does
     * well; the last two are the classic protocol's only. */
    const struct config_pass soft[] = {{"fetch.message.max.bytes", "262144"},
                                       {"queued.max.messages.kbytes", "16384"},
                                       {"fetch.wait.max.ms", "100"},
                                       {"partition.assignment.strategy", "range"},
                                       {"heartbeat.interval.ms", heartbeat}};
    size_t count = sizeof soft / sizeof soft[0];
    count -= kafka_consumer_settings_is_new_protocol(config) ? 2 : 0;
    for (size_t i = 0; i < count; i++) {
        if (!kafka_settings_default(conf, config, soft[i].name, soft[i].value, err, err_bytes)) {
            return false;
        }
    }
    const char *instance = config->group_instance_id;
    return instance == NULL || instance[0] == '\0' ||
           kafka_settings_default(conf, config, "group.instance.id", instance, err, err_bytes);
}

rd_kafka_conf_t *kafka_consumer_settings_make(const struct config *config, char *err,
                                              size_t err_bytes) {
    struct config_pass fixed[16] = {{"group.id", config->group}};
    const char *refusal = kafka_consumer_settings_refusal(config, rd_kafka_version());
    if (refusal != NULL) {
        snprintf(err, err_bytes, "%s (this is %s)", refusal, rd_kafka_version_str());
        return NULL;
    }
    static_assert(sizeof kafka_consumer_settings_fixed < sizeof fixed, "and one more");
    memcpy(fixed + 1, kafka_consumer_settings_fixed,
           kafka_consumer_settings_fixed_count * sizeof *fixed);
    rd_kafka_conf_t *conf =
        kafka_settings_make(config, fixed, kafka_consumer_settings_fixed_count + 1, err, err_bytes);
    if (conf != NULL && !kafka_consumer_settings_soften(conf, config, err, err_bytes)) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    return conf;
}
