/* Producer, reader and topic administration against librdkafka's in-process cluster. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <string.h>

#include "consumer/config.h"
#include "consumer/kafka_admin.h"
#include "consumer/kafka_broker.h"
#include "consumer/kafka_producer.h"
#include "consumer/kafka_reader.h"
#include "tests/support/test.h"

enum { PARTITIONS = 3, WAIT_MS = 15000 };

static struct kafka_broker *broker;
static struct config config;
static char err[512];

static int start_broker(void **state) {
    const char *topics[] = {"jobs", "empty"};
    broker = kafka_broker_open(topics, 2, PARTITIONS, err, sizeof err);
    config.brokers = broker ? kafka_broker_address(broker) : "";
    return broker == NULL;
}

static int stop_broker(void **state) {
    kafka_broker_close(broker);
    return 0;
}

static struct kafka_producer *opened_producer(const struct config *settings, int64_t timeout_ms) {
    struct kafka_producer *producer = NULL;
    if (kafka_producer_open(settings, timeout_ms, &producer, err, sizeof err) != KAFKA_CLIENT_OK) {
        fail_msg("%s", err);
    }
    return producer;
}

/* Sends values that must outlive the call, and takes their deliveries. */
static void produce(const char *topic, const char *const *keys, const char *const *values,
                    size_t count, struct kafka_producer_delivery *deliveries) {
    struct kafka_producer *producer = opened_producer(&config, WAIT_MS);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(kafka_producer_send(producer, topic, keys[i], values[i], strlen(values[i]),
                                             &deliveries[i], err, sizeof err),
                         KAFKA_CLIENT_OK);
    }
    for (size_t i = 0; i < count; i++) {
        struct kafka_producer_delivery *delivery;
        assert_int_equal(kafka_producer_take_delivery(producer, WAIT_MS, &delivery),
                         KAFKA_CLIENT_OK);
        assert_int_equal(delivery->status, KAFKA_CLIENT_OK);
    }
    assert_int_equal(kafka_producer_take_delivery(producer, 0, NULL), KAFKA_CLIENT_NONE);
    kafka_producer_close(producer);
}

/* The next record, skipping rounds without one; END when there is none. */
static enum kafka_client_status next(struct kafka_reader *reader, bool follow,
                                     struct kafka_reader_record *record) {
    enum kafka_client_status status = KAFKA_CLIENT_NONE;
    for (int i = 0; i < 300 && status == KAFKA_CLIENT_NONE; i++) {
        status = kafka_reader_read(reader, 50, follow, record, err, sizeof err);
    }
    return status;
}

static struct kafka_reader *opened_reader(const char *topic, enum kafka_reader_start start,
                                          int64_t newest) {
    struct kafka_reader *reader = NULL;
    if (kafka_reader_open(&config, topic, start, newest, WAIT_MS, &reader, err, sizeof err) !=
        KAFKA_CLIENT_OK) {
        fail_msg("%s", err);
    }
    return reader;
}

static size_t count_records(struct kafka_reader *reader) {
    struct kafka_reader_record record;
    size_t count = 0;
    enum kafka_client_status status;
    while ((status = next(reader, false, &record)) == KAFKA_CLIENT_OK) {
        count++;
    }
    assert_int_equal(status, KAFKA_CLIENT_END);
    return count;
}

static void delivers_and_reads_back_keys_and_values(void **state) {
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f"};
    static const char *const values[] = {"1", "22", "333", "", "5\n5", "\xE4\xB8\xA4"};
    struct kafka_producer_delivery deliveries[6];
    produce("jobs", keys, values, 6, deliveries);
    struct kafka_reader *reader = opened_reader("jobs", KAFKA_READER_BEGINNING, 0);
    struct kafka_reader_record record;
    unsigned seen = 0;
    while (next(reader, false, &record) == KAFKA_CLIENT_OK) {
        size_t i = (size_t)(record.key[0] - 'a');
        assert_int_equal(record.value_bytes, strlen(values[i]));
        assert_memory_equal(record.value ? record.value : "", values[i], record.value_bytes);
        assert_int_equal(record.partition, deliveries[i].partition);
        assert_true(record.offset == deliveries[i].offset);
        assert_true(record.timestamp_unix_ms > 0);
        seen |= 1u << i;
    }
    assert_int_equal(seen, 0x3f);
    kafka_reader_close(reader);
}

static void reads_only_the_newest_of_each_partition(void **state) {
    static const char *const keys[] = {"same", "same", "same", "same"};
    static const char *const values[] = {"1", "2", "3", "4"};
    struct kafka_producer_delivery deliveries[4];
    produce("jobs", keys, values, 4, deliveries);
    struct kafka_reader *reader = opened_reader("jobs", KAFKA_READER_NEWEST, 1);
    struct kafka_reader_record record;
    size_t count = 0;
    bool saw_last = false;
    while (next(reader, false, &record) == KAFKA_CLIENT_OK) {
        count++;
        saw_last |=
            record.partition == deliveries[3].partition && record.offset == deliveries[3].offset;
    }
    assert_in_range(count, 1, PARTITIONS);
    assert_true(saw_last);
    kafka_reader_close(reader);
}

static void ends_at_once_on_an_empty_topic(void **state) {
    struct kafka_reader *reader = opened_reader("empty", KAFKA_READER_BEGINNING, 0);
    struct kafka_reader_record record;
    assert_int_equal(kafka_reader_read(reader, 0, false, &record, err, sizeof err),
                     KAFKA_CLIENT_END);
    kafka_reader_close(reader);
}

static void follows_what_comes_after_opening(void **state) {
    struct kafka_reader *reader = opened_reader("jobs", KAFKA_READER_LATEST, 0);
    static const char *const key = "late";
    static const char *const value = "news";
    struct kafka_producer_delivery delivery;
    produce("jobs", &key, &value, 1, &delivery);
    struct kafka_reader_record record;
    assert_int_equal(next(reader, true, &record), KAFKA_CLIENT_OK);
    assert_memory_equal(record.value, "news", 4);
    kafka_reader_close(reader);
}

static void reads_no_record_that_came_after_opening(void **state) {
    static const char *const keys[] = {"x", "y", "z", "w"};
    static const char *const values[] = {"1", "2", "3", "4"};
    struct kafka_producer_delivery deliveries[4];
    produce("jobs", keys, values, 4, deliveries);
    struct kafka_reader *all = opened_reader("jobs", KAFKA_READER_BEGINNING, 0);
    size_t before = count_records(all);
    kafka_reader_close(all);
    struct kafka_reader *reader = opened_reader("jobs", KAFKA_READER_BEGINNING, 0);
    for (int i = 0; i < 20; i++) { /* while other partitions are still to be read */
        produce("jobs", keys, values, 4, deliveries);
    }
    assert_int_equal(count_records(reader), before);
    kafka_reader_close(reader);
}

static void sends_any_record_with_its_headers(void **state) {
    const struct record record = {.value = "v", .value_bytes = 1};
    const struct record_header headers[] = {{"a", "1", 1}, {"null", NULL, 0}, {"a", "22", 2}};
    struct kafka_producer *producer = opened_producer(&config, WAIT_MS);
    struct kafka_reader *reader = opened_reader("jobs", KAFKA_READER_LATEST, 0);
    struct kafka_producer_delivery delivery;
    assert_int_equal(kafka_producer_send_record(producer, "jobs", &record, headers, 3, &delivery,
                                                err, sizeof err),
                     KAFKA_CLIENT_OK);
    assert_int_equal(kafka_producer_take_delivery(producer, WAIT_MS, NULL), KAFKA_CLIENT_OK);
    struct kafka_reader_record read;
    struct record_header found[4];
    assert_int_equal(next(reader, true, &read), KAFKA_CLIENT_OK);
    assert_null(read.key);
    assert_int_equal(read.value_bytes, 1);
    assert_int_equal(kafka_reader_headers(reader, found, 4), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(found[i].name, headers[i].name);
        assert_int_equal(found[i].value_bytes, headers[i].value_bytes);
        assert_memory_equal(found[i].value_bytes ? found[i].value : "",
                            headers[i].value_bytes ? headers[i].value : "", found[i].value_bytes);
    }
    assert_int_equal(kafka_reader_headers(reader, found, 2), 2);
    kafka_reader_close(reader);
    kafka_producer_close(producer);
}

static void reads_one_record_at_its_place(void **state) {
    static const char *const keys[] = {"x", "x", "x"};
    static const char *const values[] = {"one", "two", "six"};
    struct kafka_producer_delivery deliveries[3];
    produce("jobs", keys, values, 3, deliveries);
    struct kafka_reader *reader = NULL;
    assert_int_equal(kafka_reader_open_at(&config, "jobs", deliveries[1].partition,
                                          deliveries[1].offset, WAIT_MS, &reader, err, sizeof err),
                     KAFKA_CLIENT_OK);
    struct kafka_reader_record record;
    assert_int_equal(next(reader, false, &record), KAFKA_CLIENT_OK);
    assert_memory_equal(record.value, "two", 3);
    assert_int_equal(next(reader, false, &record), KAFKA_CLIENT_END);
    kafka_reader_close(reader);
}

static void reads_all_that_a_topic_holds_and_no_more(void **state) {
    struct kafka_reader *reader = opened_reader("jobs", KAFKA_READER_BEGINNING, 0);
    size_t before = count_records(reader);
    kafka_reader_close(reader);
    static const char *const keys[] = {"p", "q"};
    struct kafka_producer_delivery deliveries[2];
    produce("jobs", keys, keys, 2, deliveries);
    reader = opened_reader("jobs", KAFKA_READER_BEGINNING, 0);
    assert_int_equal(count_records(reader), before + 2);
    kafka_reader_close(reader);
}

static void says_why_no_broker_can_be_reached(void **state) {
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", test_free_port());
    struct config away = {.brokers = address};
    struct kafka_producer *producer = opened_producer(&away, 500);
    assert_int_equal(kafka_producer_check(producer, "jobs", 500, err, sizeof err),
                     KAFKA_CLIENT_UNREACHABLE);
    assert_non_null(strstr(err, address));
    struct kafka_producer_delivery delivery;
    assert_int_equal(kafka_producer_send(producer, "jobs", "k", "v", 1, &delivery, err, sizeof err),
                     KAFKA_CLIENT_OK);
    assert_int_equal(kafka_producer_take_delivery(producer, WAIT_MS, NULL), KAFKA_CLIENT_OK);
    assert_int_equal(delivery.status, KAFKA_CLIENT_UNREACHABLE);
    assert_true(delivery.error[0]);
    kafka_producer_close(producer);
    struct kafka_reader *reader = NULL;
    assert_int_equal(
        kafka_reader_open(&away, "jobs", KAFKA_READER_BEGINNING, 0, 500, &reader, err, sizeof err),
        KAFKA_CLIENT_UNREACHABLE);
    assert_non_null(strstr(err, "Connection refused"));
}

static void goes_on_following_after_an_outage_and_says_when_it_lasts(void **state) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    rd_kafka_t *owner = rd_kafka_new(RD_KAFKA_PRODUCER, conf, err, sizeof err);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(owner, 1);
    rd_kafka_mock_topic_create(cluster, "t", 1, 1);
    struct config settings = {.brokers = rd_kafka_mock_cluster_bootstraps(cluster)};
    settings.kafka[0] = (struct config_pass){"reconnect.backoff.max.ms", "100"};
    settings.kafka_count = 1;
    struct kafka_reader *reader = NULL;
    assert_int_equal(
        kafka_reader_open(&settings, "t", KAFKA_READER_LATEST, 0, 1000, &reader, err, sizeof err),
        KAFKA_CLIENT_OK);
    struct kafka_reader_record record;
    rd_kafka_mock_broker_set_down(cluster, 1);
    assert_int_equal(kafka_reader_read(reader, 300, true, &record, err, sizeof err),
                     KAFKA_CLIENT_NONE);
    rd_kafka_mock_broker_set_up(cluster, 1);
    for (int i = 0; i < 15; i++) { /* well beyond the time-out, and nothing comes */
        assert_int_equal(kafka_reader_read(reader, 100, true, &record, err, sizeof err),
                         KAFKA_CLIENT_NONE);
    }
    rd_kafka_mock_broker_set_down(cluster, 1);
    assert_int_equal(next(reader, true, &record), KAFKA_CLIENT_UNREACHABLE);
    kafka_reader_close(reader);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(owner);
}

static void lets_no_setting_weaken_delivery_unless_told_to(void **state) {
    struct config settings = config;
    settings.kafka[0] = (struct config_pass){"acks", "0"};
    settings.kafka_count = 1;
    struct kafka_producer *producer = NULL;
    assert_int_equal(kafka_producer_open(&settings, 100, &producer, err, sizeof err),
                     KAFKA_CLIENT_BAD_SETTING);
    assert_non_null(strstr(err, "kafka.acks"));
    settings.kafka[0] = (struct config_pass){"compression.type", "lz4"};
    kafka_producer_close(opened_producer(&settings, 100));
    settings.kafka[0] = (struct config_pass){"no.such.property", "1"};
    assert_int_equal(kafka_producer_open(&settings, 100, &producer, err, sizeof err),
                     KAFKA_CLIENT_BAD_SETTING);
    assert_non_null(strstr(err, "no.such.property"));
}

static void finds_topics_that_exist_without_an_admin_interface(void **state) {
    struct kafka_admin_topic topics[] = {{.name = "jobs", .partitions = 12, .replication = -1},
                                         {.name = "empty", .partitions = 3, .replication = -1}};
    assert_int_equal(kafka_admin_make_topics(&config, topics, 2, WAIT_MS, err, sizeof err),
                     KAFKA_CLIENT_OK);
    assert_true(topics[0].existed && topics[1].existed);
    assert_int_equal(topics[0].partitions_found, PARTITIONS);
    assert_string_equal(topics[0].timestamp_type, "");
}

static void says_that_the_broker_has_no_admin_interface(void **state) {
    struct kafka_admin_topic topic = {.name = "new", .partitions = 1, .replication = -1};
    assert_int_equal(kafka_admin_make_topics(&config, &topic, 1, WAIT_MS, err, sizeof err),
                     KAFKA_CLIENT_REFUSED);
    assert_non_null(strstr(err, "no admin interface"));
}

TEST_MAIN_WITH(start_broker, stop_broker, cmocka_unit_test(delivers_and_reads_back_keys_and_values),
               cmocka_unit_test(reads_only_the_newest_of_each_partition),
               cmocka_unit_test(ends_at_once_on_an_empty_topic),
               cmocka_unit_test(follows_what_comes_after_opening),
               cmocka_unit_test(reads_no_record_that_came_after_opening),
               cmocka_unit_test(sends_any_record_with_its_headers),
               cmocka_unit_test(reads_one_record_at_its_place),
               cmocka_unit_test(reads_all_that_a_topic_holds_and_no_more),
               cmocka_unit_test(says_why_no_broker_can_be_reached),
               cmocka_unit_test(goes_on_following_after_an_outage_and_says_when_it_lasts),
               cmocka_unit_test(lets_no_setting_weaken_delivery_unless_told_to),
               cmocka_unit_test(finds_topics_that_exist_without_an_admin_interface),
               cmocka_unit_test(says_that_the_broker_has_no_admin_interface))
