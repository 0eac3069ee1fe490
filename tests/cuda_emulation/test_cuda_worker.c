/* A worker whose engine computes on the emulated card, between an in-process Kafka cluster and a
 * real Redis: the answers are those of the CPU, and when the card is lost every job is given
 * back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/worker.h"
#include "engine/clock.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/support/test.h"
#include "tests/support/tiny_llama.h"
#include "tests/support/worker_rig.h"

enum { JOBS = 3, CUDA_LAUNCH_FAILURE = 719, DEVICE_BYTES = 16 << 20, HASH_BYTES = 65 };

static struct worker_rig rig;
static char *tiny_path;

static void start_worker(const char *group, const char *device) {
    const struct engine_options options = {.model_path = tiny_path,
                                           .device = device,
                                           .cpu_tier = "reference",
                                           .threads = 1,
                                           .max_batch_size = 2,
                                           .prefill_chunk_tokens = 16,
                                           .max_model_len = 64,
                                           .kv_cache_bytes = 16 * 4096};
    static uint64_t random;
    random = random != 0 ? random : test_seed();
    emulation_reset(test_random(&random));
    emulation_set_memory(DEVICE_BYTES);
    rig.model = &options; /* until the worker is prepared */
    worker_rig_start(&rig, group, NULL, NULL);
    rig.model = NULL;
    worker_rig_until_ready(&rig);
}

static void produce(uint32_t i) {
    char value[256], key[32];
    snprintf(key, sizeof key, "job-%u", i);
    int bytes = snprintf(value, sizeof value,
                         "{\"request_id\": \"%s\", \"prompt\": \"abcab%c\", \"params\": "
                         "{\"max_tokens\": 8, \"temperature\": 0.7, \"seed\": %u}}",
                         key, (char)('a' + i), i);
    worker_rig_produce(&rig, -1, key, value, (size_t)bytes, NULL);
}

/* The hash of the answer of the job that the next result is of. */
static void take_hash(char hashes[JOBS][HASH_BYTES]) {
    static const char name[] = "\"answer_sha256\":\"";
    struct worker_rig_record record = worker_rig_next_result(&rig);
    assert_true(worker_rig_has_header(&record, "status", "done"));
    const char *found = strstr(record.value, name);
    uint32_t i = (uint32_t)(record.key[4] - '0');
    assert_true(found != NULL && i < JOBS);
    memcpy(hashes[i], found + sizeof name - 1, HASH_BYTES - 1);
    worker_rig_free(&record);
}

static void answer_all(const char *group, const char *device, char hashes[JOBS][HASH_BYTES]) {
    start_worker(group, device);
    for (uint32_t i = 0; i < JOBS; i++) {
        produce(i);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        take_hash(hashes);
    }
    worker_rig_until_drained(&rig);
    assert_int_equal(worker_rig_stats(&rig).done, JOBS);
    worker_rig_redis(&rig, "FLUSHALL");
}

static void answers_what_the_cpu_answers(void **state) {
    static char by_cpu[JOBS][HASH_BYTES], by_card[JOBS][HASH_BYTES];
    answer_all("cpu", "cpu", by_cpu);
    for (unsigned shuffle = 0; shuffle < emulation_shuffles(1); shuffle++) {
        char group[32];
        snprintf(group, sizeof group, "card-%u", shuffle);
        worker_rig_stop(&rig);
        answer_all(group, "cuda:0", by_card);
        for (uint32_t i = 0; i < JOBS; i++) {
            assert_int_equal(strlen(by_cpu[i]), HASH_BYTES - 1);
            assert_string_equal(by_card[i], by_cpu[i]);
        }
        assert_string_not_equal(by_card[0], by_card[1]);
    }
}

static void gives_every_job_back_when_the_card_is_lost(void **state) {
    char err[256] = "";
    enum worker_status status = WORKER_OK;
    start_worker("lost-card", "cuda:0");
    emulation_fail_call("cudaStreamSynchronize", 3, CUDA_LAUNCH_FAILURE);
    for (uint32_t i = 0; i < JOBS; i++) {
        produce(i);
    }
    for (int64_t end = clock_monotonic_ns(NULL) + 20000 * CLOCK_NS_PER_MS; status == WORKER_OK;) {
        assert_true(clock_monotonic_ns(NULL) < end);
        status = worker_step(rig.worker, 5, err, sizeof err);
    }
    assert_int_equal(status, WORKER_FAILED);
    assert_non_null(strstr(err, "cudaErrorLaunchFailure"));
    worker_drain(rig.worker);
    worker_rig_until_drained(&rig);
    struct worker_stats stats = worker_rig_stats(&rig);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.done + stats.given_back_in_drain, JOBS);
    assert_true(stats.given_back_in_drain >= 1);
}

static int open_rig(void **state) {
    const struct tiny_llama_options small = {.layers = 1}; /* the emulation computes slowly */
    tiny_path = tiny_llama_write(&small);
    worker_rig_open(&rig);
    return tiny_path == NULL;
}

static int close_rig(void **state) {
    worker_rig_close(&rig);
    free(tiny_path);
    return 0;
}

/* Nothing of the engine is left on the device. */
static int stop_worker(void **state) {
    worker_rig_stop(&rig);
    assert_string_equal(emulation_last_report(), "");
    assert_int_equal(emulation_live_objects(), 0);
    return 0;
}

#define CASE(name) cmocka_unit_test_teardown(name, stop_worker)
TEST_MAIN_WITH(open_rig, close_rig, CASE(answers_what_the_cpu_answers),
               CASE(gives_every_job_back_when_the_card_is_lost))
