#include "consumer/kafka_admin.h"

#include <assert.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

#include "consumer/kafka_settings.h"

#define KAFKA_ADMIN_CONTROLLER_WAIT_MS 2000 /* it comes with the list of topics, asked for before */

static const char kafka_admin_absent[] =
    "a topic is missing, and this broker has no admin interface (solfleet broker makes its topics "
    "itself, named by its --jobs-topic, --results-topic and --dead-letter-topic)";

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

/* Whether there is a controller, which is who takes such requests: librdkafka's in-process cluster
 * names one that is none of its brokers. */
static bool kafka_admin_is_served(rd_kafka_t *handle, const struct rd_kafka_metadata *found) {
    int controller = rd_kafka_controllerid(handle, KAFKA_ADMIN_CONTROLLER_WAIT_MS);
    for (int i = 0; i < found->broker_cnt; i++) {
        if (found->brokers[i].id == controller) {
            return true;
        }
    }
    return false;
}

/* Marks the topics that exist. Asks for all, since asking for one by name may make it. */
static enum kafka_client_status kafka_admin_look(rd_kafka_t *handle,
                                                 struct kafka_admin_topic *topics, size_t count,
                                                 int64_t timeout_ms, const char *last_error,
                                                 bool *served, char *err, size_t err_bytes) {
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_resp_err_t error = rd_kafka_metadata(handle, 1, NULL, &found, (int)timeout_ms);
    if (error) {
        rd_kafka_poll(handle, 0);
        snprintf(err, err_bytes, "%s", last_error[0] ? last_error : rd_kafka_err2str(error));
        return KAFKA_CLIENT_UNREACHABLE;
    }
    for (size_t i = 0; i < count; i++) {
        for (int j = 0; j < found->topic_cnt; j++) {
            if (strcmp(found->topics[j].topic, topics[i].name) == 0 &&
                found->topics[j].partition_cnt > 0) {
                topics[i].existed = true;
                topics[i].partitions_found = found->topics[j].partition_cnt;
            }
        }
    }
    *served = kafka_admin_is_served(handle, found);
    rd_kafka_metadata_destroy(found);
    return KAFKA_CLIENT_OK;
}

/* Waits for the answer to an admin request; NULL with the reason in err and *status. */
static rd_kafka_event_t *kafka_admin_answer(rd_kafka_queue_t *queue, int64_t timeout_ms,
                                            enum kafka_client_status *status, char *err,
                                            size_t err_bytes) {
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, (int)timeout_ms + 1000);
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

static enum kafka_client_status kafka_admin_check_created(rd_kafka_event_t *event, char *err,
                                                          size_t err_bytes) {
    size_t count = 0;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[i]);
        /* Somebody else made it since we looked: as good as made by us. */
        if (error && error != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
            const char *said = rd_kafka_topic_result_error_string(results[i]);
            snprintf(err, err_bytes, "topic %s: %s", rd_kafka_topic_result_name(results[i]),
                     said ? said : rd_kafka_err2str(error));
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

static rd_kafka_AdminOptions_t *kafka_admin_options(rd_kafka_t *handle, rd_kafka_admin_op_t op,
                                                    int64_t timeout_ms) {
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(handle, op);
    char said[128];
    rd_kafka_AdminOptions_set_request_timeout(options, (int)timeout_ms, said, sizeof said);
    return options;
}

static enum kafka_client_status kafka_admin_create(rd_kafka_t *handle, rd_kafka_queue_t *queue,
                                                   const struct kafka_admin_topic *topics,
                                                   size_t count, int64_t timeout_ms, char *err,
                                                   size_t err_bytes) {
    rd_kafka_NewTopic_t *wanted[KAFKA_ADMIN_TOPICS_MAX];
    size_t wanted_count = 0;
    enum kafka_client_status status = KAFKA_CLIENT_OK;
    for (size_t i = 0; status == KAFKA_CLIENT_OK && i < count; i++) {
        if (!topics[i].existed) {
            wanted[wanted_count] = kafka_admin_describe(&topics[i], err, err_bytes);
            status = wanted[wanted_count] ? KAFKA_CLIENT_OK : KAFKA_CLIENT_BAD_SETTING;
            wanted_count += wanted[wanted_count] != NULL;
        }
    }
    if (status == KAFKA_CLIENT_OK && wanted_count) {
        rd_kafka_AdminOptions_t *options =
            kafka_admin_options(handle, RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout_ms);
        rd_kafka_CreateTopics(handle, wanted, wanted_count, options, queue);
        rd_kafka_AdminOptions_destroy(options);
        rd_kafka_event_t *event = kafka_admin_answer(queue, timeout_ms, &status, err, err_bytes);
        if (event) {
            status = kafka_admin_check_created(event, err, err_bytes);
            rd_kafka_event_destroy(event);
        }
    }
    rd_kafka_NewTopic_destroy_array(wanted, wanted_count);
    return status;
}

static void kafka_admin_take_timestamp_type(const rd_kafka_ConfigResource_t *resource,
                                            struct kafka_admin_topic *topics, size_t count) {
    size_t entry_count = 0;
    const rd_kafka_ConfigEntry_t **entries =
        rd_kafka_ConfigResource_configs(resource, &entry_count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(topics[i].name, rd_kafka_ConfigResource_name(resource)) != 0) {
            continue;
        }
        for (size_t j = 0; j < entry_count; j++) {
            const char *value = rd_kafka_ConfigEntry_value(entries[j]);
            if (value &&
                strcmp(rd_kafka_ConfigEntry_name(entries[j]), "message.timestamp.type") == 0) {
                snprintf(topics[i].timestamp_type, sizeof topics[i].timestamp_type, "%s", value);
            }
        }
    }
}

/* Fills timestamp_type of topics that existed. A broker that does not tell is no failure: the topics
 * are there. */
static void kafka_admin_inspect(rd_kafka_t *handle, rd_kafka_queue_t *queue,
                                struct kafka_admin_topic *topics, size_t count,
                                int64_t timeout_ms) {
    rd_kafka_ConfigResource_t *asked[KAFKA_ADMIN_TOPICS_MAX];
    size_t asked_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (topics[i].existed) {
            asked[asked_count++] =
                rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topics[i].name);
        }
    }
    if (!asked_count) {
        return;
    }
    rd_kafka_AdminOptions_t *options =
        kafka_admin_options(handle, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout_ms);
    rd_kafka_DescribeConfigs(handle, asked, asked_count, options, queue);
    rd_kafka_AdminOptions_destroy(options);
    enum kafka_client_status status;
    char ignored[256];
    rd_kafka_event_t *event =
        kafka_admin_answer(queue, timeout_ms, &status, ignored, sizeof ignored);
    if (event) {
        size_t resource_count = 0;
        const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event), &resource_count);
        for (size_t i = 0; i < resource_count; i++) {
            kafka_admin_take_timestamp_type(resources[i], topics, count);
        }
        rd_kafka_event_destroy(event);
    }
    rd_kafka_ConfigResource_destroy_array(asked, asked_count);
}

enum kafka_client_status kafka_admin_make_topics(const struct config *config,
                                                 struct kafka_admin_topic *topics, size_t count,
                                                 int64_t timeout_ms, char *err, size_t err_bytes) {
    assert(count <= KAFKA_ADMIN_TOPICS_MAX);
    char last_error[KAFKA_CLIENT_ERROR_BYTES] = "";
    rd_kafka_t *handle = kafka_admin_open(config, last_error, err, err_bytes);
    if (!handle) {
        return KAFKA_CLIENT_BAD_SETTING;
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
    bool served = false;
    enum kafka_client_status status =
        kafka_admin_look(handle, topics, count, timeout_ms, last_error, &served, err, err_bytes);
    if (status == KAFKA_CLIENT_OK && served) {
        status = kafka_admin_create(handle, queue, topics, count, timeout_ms, err, err_bytes);
    }
    if (status == KAFKA_CLIENT_OK && served) {
        kafka_admin_inspect(handle, queue, topics, count, timeout_ms);
    }
    for (size_t i = 0; status == KAFKA_CLIENT_OK && !served && i < count; i++) {
        if (!topics[i].existed) {
            snprintf(err, err_bytes, "%s", kafka_admin_absent);
            status = KAFKA_CLIENT_REFUSED;
        }
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(handle);
    return status;
}
