#include "consumer/kafka_admin.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

#include "consumer/kafka_controller.h"
#include "consumer/kafka_settings.h"

/* It comes with the list of topics, asked for before. */
#define KAFKA_ADMIN_CONTROLLER_WAIT_MS 2000

static const char kafka_admin_absent[] =
    "a topic is missing, and this broker has no admin interface (solfleet broker makes its topics "
    "itself, named by its --jobs-topic, --results-topic and --dead-letter-topic)";

struct kafka_admin {
    rd_kafka_t *handle;
    rd_kafka_queue_t *queue;
    struct kafka_admin_topic *topics;
    size_t count;
    int64_t timeout_ms;
    bool served; /* there is a controller */
    char last_error[KAFKA_CLIENT_ERROR_BYTES];
};

static void kafka_admin_on_error(rd_kafka_t *handle, int error, const char *reason, void *opaque) {
    (void)handle;
    char *last_error = opaque;
    if (error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        snprintf(last_error, KAFKA_CLIENT_ERROR_BYTES, "%s", reason);
    }
}

static rd_kafka_t *kafka_admin_open(const struct config *config, char *last_error, char *err,
                                    size_t err_bytes) {
    rd_kafka_conf_t *conf = kafka_settings_make(config, NULL, 0, err, err_bytes);
    if (!conf) {
        return NULL;
    }
    rd_kafka_conf_set_opaque(conf, last_error);
    rd_kafka_conf_set_error_cb(conf, kafka_admin_on_error);
    rd_kafka_conf_set_log_cb(conf, NULL);
    rd_kafka_t *handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, err, err_bytes);
    if (!handle) {
        rd_kafka_conf_destroy(conf);
    }
    return handle;
}

/* Fills partitions_found of the topics that are there. Asks for all, since asking for one by name
 * may make it. */
static enum kafka_client_status kafka_admin_look(struct kafka_admin *admin, char *err,
                                                 size_t err_bytes) {
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(admin->handle, 1, NULL, &found, (int)admin->timeout_ms);
    if (error) {
        rd_kafka_poll(admin->handle, 0);
        snprintf(err, err_bytes, "%s",
                 admin->last_error[0] ? admin->last_error : rd_kafka_err2str(error));
        return KAFKA_CLIENT_UNREACHABLE;
    }
    for (size_t i = 0; i < admin->count; i++) {
        for (int j = 0; j < found->topic_cnt; j++) {
            if (strcmp(found->topics[j].topic, admin->topics[i].name) == 0) {
                admin->topics[i].partitions_found = found->topics[j].partition_cnt;
            }
        }
    }
    admin->served = kafka_controller_is_among(admin->handle, found, KAFKA_ADMIN_CONTROLLER_WAIT_MS);
    rd_kafka_metadata_destroy(found);
    return KAFKA_CLIENT_OK;
}

/* Waits, for a moment, until every topic is seen: whoever is told that they exist will use them. */
static enum kafka_client_status kafka_admin_settle(struct kafka_admin *admin, char *err,
                                                   size_t err_bytes) {
    for (int waited_ms = 0; waited_ms <= KAFKA_CLIENT_SETTLE_MS;
         waited_ms += KAFKA_CLIENT_SETTLE_STEP_MS) {
        enum kafka_client_status status = kafka_admin_look(admin, err, err_bytes);
        size_t missing = 0;
        for (size_t i = 0; i < admin->count; i++) {
            missing += admin->topics[i].partitions_found == 0;
        }
        if (status != KAFKA_CLIENT_OK || missing == 0) {
            return status;
        }
        rd_kafka_poll(admin->handle, KAFKA_CLIENT_SETTLE_STEP_MS);
    }
    return KAFKA_CLIENT_OK;
}

/* Waits for the answer to an admin request; NULL with the reason in err and *status. */
static rd_kafka_event_t *kafka_admin_answer(const struct kafka_admin *admin,
                                            enum kafka_client_status *status, char *err,
                                            size_t err_bytes) {
    rd_kafka_event_t *event = rd_kafka_queue_poll(admin->queue, (int)admin->timeout_ms + 1000);
    rd_kafka_resp_err_t error = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (!error) {
        return event;
    }
    *status = kafka_client_status_of(error);
    snprintf(err, err_bytes, "%s",
             error == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE ? kafka_admin_absent
             : event                                         ? rd_kafka_event_error_string(event)
                                                             : "no answer");
    rd_kafka_event_destroy(event);
    return NULL;
}

static enum kafka_client_status kafka_admin_check_created(struct kafka_admin *admin,
                                                          rd_kafka_event_t *event, char *err,
                                                          size_t err_bytes) {
    size_t result_count = 0;
    const rd_kafka_topic_result_t **results = rd_kafka_CreateTopics_result_topics(
        rd_kafka_event_CreateTopics_result(event), &result_count);
    for (size_t i = 0; i < result_count; i++) {
        rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[i]);
        const char *name = rd_kafka_topic_result_name(results[i]);
        if (error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
            /* Made so lately that the broker we asked had not heard of it. */
            for (size_t j = 0; j < admin->count; j++) {
                admin->topics[j].existed |= strcmp(admin->topics[j].name, name) == 0;
            }
        } else if (error) {
            const char *said = rd_kafka_topic_result_error_string(results[i]);
            snprintf(err, err_bytes, "topic %s: %s", name, said ? said : rd_kafka_err2str(error));
            return KAFKA_CLIENT_REFUSED;
        }
    }
    return KAFKA_CLIENT_OK;
}

static rd_kafka_NewTopic_t *kafka_admin_describe(const struct kafka_admin_topic *topic, char *err,
                                                 size_t err_bytes) {
    rd_kafka_NewTopic_t *wanted =
        rd_kafka_NewTopic_new(topic->name, topic->partitions, topic->replication, err, err_bytes);
    for (size_t i = 0; wanted && i < topic->property_count; i++) {
        rd_kafka_NewTopic_set_config(wanted, topic->properties[i].name, topic->properties[i].value);
    }
    return wanted;
}

static rd_kafka_AdminOptions_t *kafka_admin_options(const struct kafka_admin *admin,
                                                    rd_kafka_admin_op_t op) {
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(admin->handle, op);
    char said[128];
    rd_kafka_AdminOptions_set_request_timeout(options, (int)admin->timeout_ms, said, sizeof said);
    return options;
}

static enum kafka_client_status kafka_admin_order(struct kafka_admin *admin,
                                                  rd_kafka_NewTopic_t **wanted, size_t wanted_count,
                                                  char *err, size_t err_bytes) {
    rd_kafka_AdminOptions_t *options = kafka_admin_options(admin, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_CreateTopics(admin->handle, wanted, wanted_count, options, admin->queue);
    rd_kafka_AdminOptions_destroy(options);
    enum kafka_client_status status = KAFKA_CLIENT_OK;
    rd_kafka_event_t *event = kafka_admin_answer(admin, &status, err, err_bytes);
    if (event) {
        status = kafka_admin_check_created(admin, event, err, err_bytes);
        rd_kafka_event_destroy(event);
    }
    return status;
}

/* Makes the topics that have not been found. */
static enum kafka_client_status kafka_admin_create(struct kafka_admin *admin, char *err,
                                                   size_t err_bytes) {
    rd_kafka_NewTopic_t *wanted[KAFKA_ADMIN_TOPICS_MAX];
    size_t wanted_count = 0;
    enum kafka_client_status status = KAFKA_CLIENT_OK;
    for (size_t i = 0; status == KAFKA_CLIENT_OK && i < admin->count; i++) {
        admin->topics[i].existed = admin->topics[i].partitions_found > 0;
        if (!admin->topics[i].existed) {
            wanted[wanted_count] = kafka_admin_describe(&admin->topics[i], err, err_bytes);
            status = wanted[wanted_count] ? KAFKA_CLIENT_OK : KAFKA_CLIENT_BAD_SETTING;
            wanted_count += wanted[wanted_count] != NULL;
        }
    }
    if (status == KAFKA_CLIENT_OK && wanted_count && !admin->served) {
        snprintf(err, err_bytes, "%s", kafka_admin_absent);
        status = KAFKA_CLIENT_REFUSED;
    } else if (status == KAFKA_CLIENT_OK && wanted_count) {
        status = kafka_admin_order(admin, wanted, wanted_count, err, err_bytes);
    }
    rd_kafka_NewTopic_destroy_array(wanted, wanted_count);
    return status;
}

static void kafka_admin_take_timestamp_type(const struct kafka_admin *admin,
                                            const rd_kafka_ConfigResource_t *resource) {
    size_t entry_count = 0;
    const rd_kafka_ConfigEntry_t **entries =
        rd_kafka_ConfigResource_configs(resource, &entry_count);
    for (size_t i = 0; i < admin->count; i++) {
        struct kafka_admin_topic *topic = &admin->topics[i];
        if (strcmp(topic->name, rd_kafka_ConfigResource_name(resource)) != 0) {
            continue;
        }
        for (size_t j = 0; j < entry_count; j++) {
            const char *value = rd_kafka_ConfigEntry_value(entries[j]);
            if (value &&
                strcmp(rd_kafka_ConfigEntry_name(entries[j]), "message.timestamp.type") == 0) {
                snprintf(topic->timestamp_type, sizeof topic->timestamp_type, "%s", value);
            }
        }
    }
}

/* Fills timestamp_type of topics that existed. A broker that does not tell is no failure: the
 * topics are there. */
static void kafka_admin_inspect(struct kafka_admin *admin) {
    rd_kafka_ConfigResource_t *asked[KAFKA_ADMIN_TOPICS_MAX];
    size_t asked_count = 0;
    for (size_t i = 0; i < admin->count; i++) {
        if (admin->topics[i].existed) {
            asked[asked_count++] =
                rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, admin->topics[i].name);
        }
    }
    if (!asked_count) {
        return;
    }
    rd_kafka_AdminOptions_t *options =
        kafka_admin_options(admin, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_DescribeConfigs(admin->handle, asked, asked_count, options, admin->queue);
    rd_kafka_AdminOptions_destroy(options);
    enum kafka_client_status status;
    char ignored[256];
    rd_kafka_event_t *event = kafka_admin_answer(admin, &status, ignored, sizeof ignored);
    if (event) {
        size_t resource_count = 0;
        const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event), &resource_count);
        for (size_t i = 0; i < resource_count; i++) {
            kafka_admin_take_timestamp_type(admin, resources[i]);
        }
        rd_kafka_event_destroy(event);
    }
    rd_kafka_ConfigResource_destroy_array(asked, asked_count);
}

static enum kafka_client_status kafka_admin_run(struct kafka_admin *admin, char *err,
                                                size_t err_bytes) {
    enum kafka_client_status status = kafka_admin_look(admin, err, err_bytes);
    if (status == KAFKA_CLIENT_OK) {
        status = kafka_admin_create(admin, err, err_bytes);
    }
    if (status == KAFKA_CLIENT_OK) {
        status = kafka_admin_settle(admin, err, err_bytes);
    }
    if (status == KAFKA_CLIENT_OK && admin->served) {
        kafka_admin_inspect(admin);
    }
    return status;
}

enum kafka_client_status kafka_admin_make_topics(const struct config *config,
                                                 struct kafka_admin_topic *topics, size_t count,
                                                 int64_t timeout_ms, char *err, size_t err_bytes) {
    assert(count <= KAFKA_ADMIN_TOPICS_MAX);
    struct kafka_admin admin = {.topics = topics, .count = count, .timeout_ms = timeout_ms};
    admin.handle = kafka_admin_open(config, admin.last_error, err, err_bytes);
    if (!admin.handle) {
        return KAFKA_CLIENT_BAD_SETTING;
    }
    admin.queue = rd_kafka_queue_new(admin.handle);
    enum kafka_client_status status = kafka_admin_run(&admin, err, err_bytes);
    rd_kafka_queue_destroy(admin.queue);
    rd_kafka_destroy(admin.handle);
    return status;
}
