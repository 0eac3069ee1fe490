/* The Kafka source against librdkafka's in-process cluster: what it commits and reads back, logs
 * that begin elsewhere than expected, partitions that go. Each case has its topic and its group;
 * their first assignments, which take seconds, are awaited together. */
#include "consumer/kafka_source.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/config.h"
#include "consumer/kafka_consumer_settings.h"
#include "consumer/kafka_sink.h"
#include "engine/clock.h"
#include "engine/log.h"
#include "tests/support/test.h"

enum { WAIT_MS = 20000, OFFSET_COMMIT = 8 };

struct member {
    const char *name; /* of topic and group */
    unsigned records; /* there before */
    size_t record_bytes;
    int64_t committed; /* before; -1 = nothing */
    const char *metadata;
    bool is_impatient; /* its group gives up a member that does not poll for four seconds */
    struct config config;
    struct kafka_source *source;
};

enum member_name {
    BEYOND,
    EMPTY,
    REMADE,
    OVERRUN,
    LEAVING,
    FOREIGN,
    STINGY,
    THROWN_OUT,
    SLOW,
    GAPS,
    PAUSING
};
static struct member members[] = {
    [BEYOND] = {"beyond", 6, 10, -1, NULL},      [EMPTY] = {"empty", 0, 0, -1, NULL},
    [REMADE] = {"remade", 3, 10, 100, "sf1:BB"}, [OVERRUN] = {"overrun", 80, 100000, 1, "sf1:BC"},
    [LEAVING] = {"leaving", 4, 10, -1, NULL},    [FOREIGN] = {"foreign", 3, 10, 1, "made by hand"},
    [STINGY] = {"stingy", 4, 10, -1, NULL},      [THROWN_OUT] = {"thrown-out", 3, 10, -1, NULL},
    [SLOW] = {"slow", 2, 10, -1, NULL},          [GAPS] = {"gaps", 4, 10, 0, "sf1:ABBC"},
    [PAUSING] = {"pausing", 12, 10, -1, NULL},
};
enum { MEMBERS = sizeof members / sizeof members[0] };

static rd_kafka_t *host, *producer;
static rd_kafka_mock_cluster_t *cluster;
static struct log silent;
static char err[512];

static int64_t now_ms(void) {
    return clock_monotonic_ns(NULL) / CLOCK_NS_PER_MS;
}

/* ---- the cluster, and others that use it ---- */

static rd_kafka_t *handle_of(rd_kafka_type_t type, const char *group) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    if (cluster != NULL) {
        rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster), err,
                          sizeof err);
    }
    if (group != NULL) {
        rd_kafka_conf_set(conf, "group.id", group, err, sizeof err);
    }
    rd_kafka_t *handle = rd_kafka_new(type, conf, err, sizeof err);
    assert_non_null(handle);
    return handle;
}

static void produce(const char *topic, unsigned count, size_t size) {
    char *value = calloc(1, size + 1);
    assert_non_null(value);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(topic),
                                           RD_KAFKA_V_PARTITION(0), RD_KAFKA_V_VALUE(value, size),
                                           RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                           RD_KAFKA_V_END),
                         0);
    }
    free(value);
    assert_int_equal(rd_kafka_flush(producer, WAIT_MS), 0);
}

static void commit_by_hand(const struct member *member) {
    rd_kafka_t *handle = handle_of(RD_KAFKA_CONSUMER, member->name);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_add(list, member->name, 0);
    at->offset = member->committed;
    at->metadata = strdup(member->metadata);
    at->metadata_size = strlen(member->metadata);
    assert_int_equal(rd_kafka_commit(handle, list, 0), 0);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(handle);
}

/* What the group has: the offset, -1 for none, and the metadata; the caller frees. */
static int64_t committed(const struct member *member, char **metadata) {
    rd_kafka_t *handle = handle_of(RD_KAFKA_CONSUMER, member->name);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, member->name, 0);
    assert_int_equal(rd_kafka_committed(handle, list, WAIT_MS), 0);
    int64_t offset = list->elems[0].offset;
    *metadata = strndup(list->elems[0].metadata_size > 0 ? list->elems[0].metadata : "",
                        list->elems[0].metadata_size);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(handle);
    return offset >= 0 ? offset : -1;
}

static void expect_committed(const struct member *member, int64_t offset, const char *metadata) {
    char *found = NULL;
    assert_int_equal(committed(member, &found), offset);
    assert_string_equal(found, metadata);
    free(found);
}

/* ---- members ---- */

static void join(struct member *member) {
    member->config = (struct config){.brokers = rd_kafka_mock_cluster_bootstraps(cluster),
                                     .group = member->name,
                                     .jobs_topic = member->name,
                                     .commit_interval_ms = 20,
                                     .commit_records = 1000,
                                     .kafka = {{"fetch.wait.max.ms", "20"},
                                               {"session.timeout.ms", "4000"},
                                               {"max.poll.interval.ms", "300000"}},
                                     .kafka_count = 3};
    if (member->is_impatient) {
        member->config.kafka[2].value = "4000";
    }
    if (kafka_source_open(&member->config, NULL, &silent, &member->source, err, sizeof err) !=
            KAFKA_SOURCE_OK ||
        kafka_source_subscribe(member->source, err, sizeof err) != KAFKA_SOURCE_OK) {
        fail_msg("%s", err);
    }
}

static struct kafka_source_stats stats_of(const struct member *member) {
    struct kafka_source_stats stats;
    kafka_source_stats(member->source, &stats);
    return stats;
}

/* One turn of a worker's loop; true when it gave a record. */
static bool turn(struct member *member, struct record *record) {
    kafka_source_clear_fd(member->source);
    bool received = kafka_source_receive(member->source, record);
    kafka_source_commit(member->source, false);
    return received;
}

/* Turns while the condition holds; no record may come. */
#define TURN_WHILE(member, condition)                                                             \
    for (int64_t end_ = now_ms() + WAIT_MS; condition; usleep(1000)) {                            \
        struct record none_;                                                                      \
        if (now_ms() >= end_) {                                                                   \
            fail_msg("waited too long while " #condition);                                        \
        }                                                                                         \
        if (turn(member, &none_)) {                                                               \
            fail_msg("a record came while " #condition ": %lld", (long long)none_.source.offset); \
        }                                                                                         \
    }

static struct source_ref next(struct member *member) {
    struct record record;
    for (int64_t end = now_ms() + WAIT_MS; !turn(member, &record); usleep(1000)) {
        if (now_ms() >= end) {
            fail_msg("no record came");
        }
    }
    struct source_ref ref = record.source;
    kafka_source_release(&record);
    return ref;
}

static struct source_ref expect_next(struct member *member, int64_t offset) {
    struct source_ref ref = next(member);
    assert_int_equal(ref.offset, offset);
    return ref;
}

static void settle(struct member *member, struct source_ref ref) {
    kafka_source_settle(member->source, &ref);
}

static void await_committed(struct member *member) {
    TURN_WHILE(member, !kafka_source_is_committed(member->source));
}

/* Awaits all first assignments at once. */
static int open_all(void **state) {
    log_init(&silent, STDERR_FILENO, LOG_LEVEL_ERROR, NULL);
    host = handle_of(RD_KAFKA_PRODUCER, NULL);
    cluster = rd_kafka_mock_cluster_new(host, 1);
    producer = handle_of(RD_KAFKA_PRODUCER, NULL);
    for (int i = 0; i < MEMBERS; i++) {
        rd_kafka_mock_topic_create(cluster, members[i].name, 1, 1);
        produce(members[i].name, members[i].records, members[i].record_bytes);
        if (members[i].committed >= 0) {
            commit_by_hand(&members[i]);
        }
        members[i].is_impatient = i == SLOW;
        join(&members[i]);
        kafka_source_pause(members[i].source, true); /* until its case has its turn */
    }
    int assigned = 0;
    for (int64_t end = now_ms() + WAIT_MS; assigned < MEMBERS; usleep(1000)) {
        assert_true(now_ms() < end);
        assigned = 0;
        for (int i = 0; i < MEMBERS; i++) {
            struct record record;
            assert_false(turn(&members[i], &record));
            assigned += kafka_source_is_assigned(members[i].source);
        }
    }
    return 0;
}

static int close_all(void **state) {
    for (int i = 0; i < MEMBERS; i++) {
        kafka_source_close(members[i].source);
    }
    rd_kafka_destroy(producer);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
    return 0;
}

static struct member *begin(enum member_name name) {
    kafka_source_pause(members[name].source, false);
    return &members[name];
}

/* ---- cases ---- */

static void gives_no_record_again_that_was_settled_beyond_the_committed_one(void **state) {
    struct member *member = begin(BEYOND);
    struct source_ref refs[6];
    for (int64_t i = 0; i < 6; i++) {
        refs[i] = expect_next(member, i);
    }
    settle(member, refs[2]);
    settle(member, refs[3]);
    settle(member, refs[5]);
    await_committed(member);
    expect_committed(member, 0, "sf1:CCBB");
    kafka_source_close(member->source);

    join(member);
    struct source_ref again[] = {expect_next(member, 0), expect_next(member, 1),
                                 expect_next(member, 4)};
    settle(member, again[0]);
    await_committed(member);
    expect_committed(member, 1, "sf1:BCBB");
    settle(member, again[1]);
    settle(member, again[2]);
    await_committed(member);
    expect_committed(member, 6, "");
    assert_int_equal(stats_of(member).known_total, 3);
    assert_int_equal(stats_of(member).received_total, 3);
}

static void gives_a_partition_without_records_a_starting_commit(void **state) {
    struct member *member = begin(EMPTY);
    TURN_WHILE(member, stats_of(member).commits_total == 0);
    expect_committed(member, 0, "");
    TURN_WHILE(member, !kafka_source_is_committed(member->source));
    assert_int_equal(kafka_source_deadline_ns(member->source), INT64_MAX);
}

static void begins_anew_when_the_log_ends_below_the_committed_offset(void **state) {
    struct member *member = begin(REMADE);
    for (int64_t i = 0; i < 3; i++) {
        settle(member, expect_next(member, i));
    }
    await_committed(member);
    expect_committed(member, 3, "");
    assert_int_equal(stats_of(member).restarts_total, 1);
    assert_int_equal(stats_of(member).lost_records_total, 0);
    assert_true(kafka_source_take_revoked(member->source));
}

static void counts_what_retention_deleted_unread_as_lost(void **state) {
    struct member *member = begin(OVERRUN);
    struct source_ref first = next(member);
    assert_true(first.offset > 10);
    /* Of those from 1 on, 2 and 3 were known to be settled. */
    assert_int_equal(stats_of(member).lost_records_total, first.offset - 1 - 2);
    settle(member, first);
    for (int64_t i = first.offset + 1; i < 80; i++) {
        settle(member, expect_next(member, i));
    }
    await_committed(member);
    expect_committed(member, 80, "");
    assert_int_equal(stats_of(member).lost_records_total, first.offset - 1 - 2);
}

static void commits_and_gives_up_its_records_when_it_leaves(void **state) {
    struct member *member = begin(LEAVING);
    struct source_ref first = expect_next(member, 0), second = expect_next(member, 1);
    kafka_source_take_revoked(member->source);
    settle(member, first);
    assert_false(kafka_source_has_left(member->source));
    kafka_source_leave(member->source);
    kafka_source_leave(member->source);
    TURN_WHILE(member, !kafka_source_has_left(member->source));
    assert_false(kafka_source_owns(member->source, &second));
    assert_true(kafka_source_take_revoked(member->source));
    assert_false(kafka_source_take_revoked(member->source));
    settle(member, second);
    assert_int_equal(stats_of(member).stale_total, 1);
    expect_committed(member, 1, "");
}

static void passes_over_metadata_that_is_not_ours(void **state) {
    struct member *member = begin(FOREIGN);
    settle(member, expect_next(member, 1));
    settle(member, expect_next(member, 2));
    await_committed(member);
    expect_committed(member, 3, "");
    assert_int_equal(stats_of(member).known_total, 0);
}

static void skips_what_is_known_from_the_first_record_on(void **state) {
    struct member *member = begin(GAPS);
    settle(member, expect_next(member, 1));
    await_committed(member);
    expect_committed(member, 4, "");
    assert_int_equal(stats_of(member).known_total, 3);
}

/* librdkafka 2.0 gives the last record again when it is told to resume what is not paused. */
static void gives_each_record_once_however_often_it_pauses(void **state) {
    struct member *member = begin(PAUSING);
    for (int64_t i = 0; i < 12; i++) {
        settle(member, expect_next(member, i));
        for (int64_t turns = 0; turns < i % 4; turns++) {
            kafka_source_pause(member->source, turns % 2 == 0);
            kafka_source_pause(member->source, turns % 2 == 0);
        }
        kafka_source_pause(member->source, false);
        kafka_source_pause(member->source, false);
    }
    await_committed(member);
    expect_committed(member, 12, "");
    assert_int_equal(stats_of(member).received_total, 12);
    assert_int_equal(stats_of(member).restarts_total, 0);
}

static void says_less_beside_the_offset_to_a_broker_that_takes_less(void **state) {
    struct member *member = begin(STINGY);
    struct source_ref refs[4];
    for (int64_t i = 0; i < 4; i++) {
        refs[i] = expect_next(member, i);
    }
    await_committed(member);
    rd_kafka_mock_push_request_errors(cluster, OFFSET_COMMIT, 1,
                                      RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE);
    settle(member, refs[1]);
    settle(member, refs[3]);
    await_committed(member);
    expect_committed(member, 0, ""); /* of eight characters not even one pair fits in half */
    assert_int_equal(stats_of(member).commits_failed_total, 1);
}

static void gives_up_partitions_when_a_commit_says_that_it_is_no_member(void **state) {
    struct member *member = begin(THROWN_OUT);
    struct source_ref refs[3];
    for (int64_t i = 0; i < 3; i++) {
        refs[i] = expect_next(member, i);
    }
    await_committed(member);
    kafka_source_take_revoked(member->source);
    rd_kafka_mock_push_request_errors(cluster, OFFSET_COMMIT, 1,
                                      RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID);
    settle(member, refs[0]);
    assert_true(kafka_source_owns(member->source, &refs[1]));
    struct record record;
    int64_t end = now_ms() + WAIT_MS;
    while (!kafka_source_take_revoked(member->source)) { /* a new assignment may come at once */
        assert_true(now_ms() < end && !turn(member, &record));
        usleep(1000);
    }
    assert_false(kafka_source_owns(member->source, &refs[1]));
    settle(member, refs[1]);
    assert_int_equal(stats_of(member).stale_total, 1);
    for (int64_t i = 0; i < 3; i++) {
        struct source_ref again = expect_next(member, i);
        assert_true(again.epoch > refs[0].epoch);
        settle(member, again);
    }
    await_committed(member);
    expect_committed(member, 3, "");
}

/* Session and poll interval of four seconds, a job of five. The first case, so that it is not
 * left alone meanwhile. */
static void stays_a_member_through_a_job_longer_than_any_time_out(void **state) {
    struct member *member = begin(SLOW);
    struct source_ref first = expect_next(member, 0), second = expect_next(member, 1);
    kafka_source_pause(member->source, true);
    int64_t end = now_ms() + 5000;
    TURN_WHILE(member, now_ms() < end);
    assert_true(kafka_source_owns(member->source, &first));
    settle(member, first);
    settle(member, second);
    await_committed(member);
    expect_committed(member, 2, "");
    assert_int_equal(stats_of(member).assignments_total, 1);
    assert_int_equal(stats_of(member).lost_total, 0);
}

/* ---- settings ---- */

static void lets_nothing_override_what_delivery_rests_on_unless_told_to(void **state) {
    for (size_t i = 0; i < kafka_consumer_settings_fixed_count; i++) {
        const struct config_pass *fixed = &kafka_consumer_settings_fixed[i];
        const char *other = strcmp(fixed->value, "true") == 0    ? "false"
                            : strcmp(fixed->value, "false") == 0 ? "true"
                            : strcmp(fixed->value, "10000") == 0 ? "77"
                                                                 : "latest";
        struct config config = {.brokers = "127.0.0.1:1", .group = "g", .kafka_count = 1};
        config.kafka[0] = (struct config_pass){fixed->name, other};
        assert_null(kafka_consumer_settings_make(&config, err, sizeof err));
        assert_non_null(strstr(err, fixed->name));
        assert_non_null(strstr(err, "--unsafe"));
        config.unsafe = true;
        rd_kafka_conf_t *conf = kafka_consumer_settings_make(&config, err, sizeof err);
        char value[64];
        size_t size = sizeof value;
        assert_non_null(conf);
        assert_int_equal(rd_kafka_conf_get(conf, fixed->name, value, &size), RD_KAFKA_CONF_OK);
        assert_string_equal(value, strcmp(other, "latest") == 0 ? "largest" : other);
        rd_kafka_conf_destroy(conf);
    }
}

static void has_the_settings_that_delivery_rests_on(void **state) {
    static const struct config_pass wanted[] = {
        {"auto.offset.reset", "smallest"}, /* librdkafka's older word for earliest */
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "true"},
        {"allow.auto.create.topics", "false"},
        {"topic.metadata.refresh.interval.ms", "10000"},
        {"partition.assignment.strategy", "range"},
        {"heartbeat.interval.ms", "2000"},
        {"group.instance.id", "pod-3"},
        {"group.id", "g"}};
    struct config config = {.brokers = "127.0.0.1:1",
                            .group = "g",
                            .group_instance_id = "pod-3",
                            .kafka = {{"session.timeout.ms", "6000"}},
                            .kafka_count = 1};
    rd_kafka_conf_t *conf = kafka_consumer_settings_make(&config, err, sizeof err);
    assert_non_null(conf);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        char value[64];
        size_t size = sizeof value;
        assert_int_equal(rd_kafka_conf_get(conf, wanted[i].name, value, &size), RD_KAFKA_CONF_OK);
        if (strcmp(value, wanted[i].value) != 0 && strcmp(value, "earliest") != 0) {
            fail_msg("%s is %s", wanted[i].name, value);
        }
    }
    rd_kafka_conf_destroy(conf);
    assert_int_equal(kafka_source_session_ms(&config), 6000);
    config.kafka_count = 0;
    assert_int_equal(kafka_source_session_ms(&config), 45000);
}

static void lets_nothing_weaken_the_results_unless_told_to(void **state) {
    static const struct config_pass weaker[] = {{"acks", "1"},
                                                {"enable.idempotence", "false"},
                                                {"message.timeout.ms", "1000"},
                                                {"allow.auto.create.topics", "true"},
                                                {"topic.metadata.refresh.interval.ms", "300000"}};
    for (size_t i = 0; i < sizeof weaker / sizeof weaker[0]; i++) {
        struct config config = {.brokers = "127.0.0.1:1",
                                .results_topic = "r",
                                .dead_letter_topic = "d",
                                .max_message_bytes = 1000000,
                                .kafka_count = 1};
        config.kafka[0] = weaker[i];
        struct kafka_sink *sink = NULL;
        assert_int_equal(kafka_sink_open(&config, NULL, &silent, &sink, err, sizeof err),
                         KAFKA_SINK_BAD_SETTING);
        assert_non_null(strstr(err, weaker[i].name));
        assert_non_null(strstr(err, "--unsafe"));
    }
}

static void refuses_cooperative_groups_where_the_library_loses_them(void **state) {
    struct config config = {.brokers = "127.0.0.1:1", .group = "g", .kafka_count = 1};
    config.kafka[0] = (struct config_pass){"partition.assignment.strategy", "cooperative-sticky"};
    assert_non_null(strstr(kafka_consumer_settings_refusal(&config, 0x020002ff), "2.10"));
    assert_null(kafka_consumer_settings_refusal(&config, 0x020a00ff));
    config.kafka[0] = (struct config_pass){"group.protocol", "consumer"};
    assert_non_null(strstr(kafka_consumer_settings_refusal(&config, 0x020900ff), "classic"));
    assert_null(kafka_consumer_settings_refusal(&config, 0x020c01ff));
    config.kafka[0] = (struct config_pass){"partition.assignment.strategy", "roundrobin"};
    assert_null(kafka_consumer_settings_refusal(&config, 0x020002ff));
}

TEST_MAIN_WITH(open_all, close_all,
               cmocka_unit_test(stays_a_member_through_a_job_longer_than_any_time_out),
               cmocka_unit_test(gives_no_record_again_that_was_settled_beyond_the_committed_one),
               cmocka_unit_test(gives_a_partition_without_records_a_starting_commit),
               cmocka_unit_test(begins_anew_when_the_log_ends_below_the_committed_offset),
               cmocka_unit_test(counts_what_retention_deleted_unread_as_lost),
               cmocka_unit_test(commits_and_gives_up_its_records_when_it_leaves),
               cmocka_unit_test(passes_over_metadata_that_is_not_ours),
               cmocka_unit_test(skips_what_is_known_from_the_first_record_on),
               cmocka_unit_test(gives_each_record_once_however_often_it_pauses),
               cmocka_unit_test(says_less_beside_the_offset_to_a_broker_that_takes_less),
               cmocka_unit_test(gives_up_partitions_when_a_commit_says_that_it_is_no_member),
               cmocka_unit_test(lets_nothing_override_what_delivery_rests_on_unless_told_to),
               cmocka_unit_test(has_the_settings_that_delivery_rests_on),
               cmocka_unit_test(lets_nothing_weaken_the_results_unless_told_to),
               cmocka_unit_test(refuses_cooperative_groups_where_the_library_loses_them))
