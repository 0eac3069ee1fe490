#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/model.h"
#include "tests/support/tiny_llama.h"

/* A checkpoint in a folder of its own, opened again and again. */
struct cached {
    struct device *device;
    char *path;
    char beside[4096], folder[4096];
    struct model_options options;
};

static void cached_open(struct cached *cached, const char *tier) {
    char err[256];
    const struct device_options options = {.spec = "cpu", .tier = tier, .threads = 1};
    const struct tiny_llama_options tiny = {.seed = 7};
    if (device_open(&options, &cached->device, err, sizeof err) != KERNELS_OK) {
        skip();
    }
    cached->path = tiny_llama_write(&tiny);
    snprintf(cached->beside, sizeof cached->beside, "%s.int8-%s.packed", cached->path, tier);
    snprintf(cached->folder, sizeof cached->folder, "%s.cache", cached->path);
    (void)unlink(cached->beside);
    cached->options = (struct model_options){
        .path = cached->path, .policy = MODEL_POLICY_INT8, .cache_beside = true};
}

static void cached_close(struct cached *cached) {
    (void)unlink(cached->beside);
    device_close(cached->device);
    free(cached->path);
}

static struct model *load(const struct cached *cached, enum model_cache_state wanted) {
    char err[512] = "";
    struct model *model = NULL;
    if (model_open(&cached->options, cached->device, &model, err, sizeof err) != MODEL_OK) {
        fail_msg("%s", err);
    }
    if (model->cache.state != wanted) {
        fail_msg("state %d instead of %d: %s %s", model->cache.state, wanted, model->cache.path,
                 model->cache.why);
    }
    return model;
}

static void load_and_close(const struct cached *cached, enum model_cache_state wanted) {
    model_close(load(cached, wanted));
}

static void same_model(const struct model *a, const struct model *b) {
    assert_memory_equal(&a->plan, &b->plan, sizeof a->plan);
    assert_memory_equal(a->memory, b->memory, a->plan.total_bytes); /* the CPU's memory is ours */
    assert_int_equal((char *)a->layers[1].down.packed - (char *)a->memory,
                     (char *)b->layers[1].down.packed - (char *)b->memory);
    assert_int_equal((char *)a->cos_table - (char *)a->memory,
                     (char *)b->cos_table - (char *)b->memory);
    assert_string_equal(a->sha256, b->sha256);
}

static void check_same_weights(const char *tier) {
    struct cached cached;
    cached_open(&cached, tier);
    struct model *converted = load(&cached, MODEL_CACHE_WRITTEN);
    struct model *read = load(&cached, MODEL_CACHE_READ);
    assert_string_equal(read->cache.path, cached.beside);
    same_model(converted, read);
    model_close(converted);
    model_close(read);
    cached_close(&cached);
}

static void gives_the_same_weights_as_the_checkpoint(void **state) {
    check_same_weights("reference");
}

static void gives_the_same_weights_with_a_copy_of_the_head(void **state) {
    check_same_weights("avx2");
}

static void is_not_there_unless_asked_for(void **state) {
    struct cached cached;
    cached_open(&cached, "reference");
    cached.options.cache_beside = false;
    load_and_close(&cached, MODEL_CACHE_NONE);
    assert_int_equal(access(cached.beside, F_OK), -1);
    cached_close(&cached);
}

/* Byte `at` of the file, from its end where negative. */
static void spoil(const char *path, off_t at) {
    char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    off_t offset = at < 0 ? lseek(fd, at, SEEK_END) : at;
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte = (char)(byte ^ 1);
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* Whatever is wrong with it, the checkpoint is converted as if it were not there; it is mended. */
static void passes_over_a_file_with_a_changed_byte(void **state) {
    static const off_t places[] = {0, 16, 17, 48, 56, 90, 5000, -1};
    struct cached cached;
    cached_open(&cached, "reference");
    struct model *first = load(&cached, MODEL_CACHE_WRITTEN);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        spoil(cached.beside, places[i]);
        struct model *again = load(&cached, MODEL_CACHE_WRITTEN);
        same_model(first, again);
        model_close(again);
    }
    load_and_close(&cached, MODEL_CACHE_READ);
    model_close(first);
    cached_close(&cached);
}

static void passes_over_a_file_of_another_size(void **state) {
    struct cached cached;
    cached_open(&cached, "reference");
    load_and_close(&cached, MODEL_CACHE_WRITTEN);
    for (off_t size = 0; size < 200; size += 50) {
        assert_int_equal(truncate(cached.beside, size), 0);
        load_and_close(&cached, MODEL_CACHE_WRITTEN);
    }
    load_and_close(&cached, MODEL_CACHE_READ);
    cached_close(&cached);
}

static void belongs_to_one_content_and_one_policy(void **state) {
    struct cached cached;
    cached_open(&cached, "reference");
    load_and_close(&cached, MODEL_CACHE_WRITTEN);
    cached.options.policy = MODEL_POLICY_F16;
    load_and_close(&cached, MODEL_CACHE_WRITTEN);
    cached.options.policy = MODEL_POLICY_INT8;
    load_and_close(&cached, MODEL_CACHE_READ);
    spoil(cached.path, -1); /* another model, of the same shapes */
    load_and_close(&cached, MODEL_CACHE_WRITTEN);
    load_and_close(&cached, MODEL_CACHE_READ);
    cached_close(&cached);
}

/* A folder by its name is in the way: root may write everywhere else. */
static void lies_in_the_folder_where_the_checkpoints_cannot_be_written(void **state) {
    struct cached cached;
    cached_open(&cached, "reference");
    cached.options.cache_folder = cached.folder;
    assert_int_equal(mkdir(cached.beside, 0700), 0);
    struct model *model = load(&cached, MODEL_CACHE_WRITTEN);
    assert_memory_equal(model->cache.path, cached.folder, strlen(cached.folder));
    model_close(model);
    load_and_close(&cached, MODEL_CACHE_READ);
    assert_int_equal(rmdir(cached.beside), 0);
    cached_close(&cached);
}

static void never_makes_a_start_fail(void **state) {
    struct cached cached;
    cached_open(&cached, "reference");
    assert_int_equal(mkfifo(cached.beside, 0600), 0); /* reading it would wait for ever */
    load_and_close(&cached, MODEL_CACHE_WRITTEN);
    assert_int_equal(unlink(cached.beside), 0);
    assert_int_equal(mkdir(cached.beside, 0700), 0);
    load_and_close(&cached, MODEL_CACHE_FAILED);
    assert_int_equal(rmdir(cached.beside), 0);
    cached_close(&cached);
}

TEST_MAIN(cmocka_unit_test(gives_the_same_weights_as_the_checkpoint),
          cmocka_unit_test(gives_the_same_weights_with_a_copy_of_the_head),
          cmocka_unit_test(is_not_there_unless_asked_for),
          cmocka_unit_test(passes_over_a_file_with_a_changed_byte),
          cmocka_unit_test(passes_over_a_file_of_another_size),
          cmocka_unit_test(belongs_to_one_content_and_one_policy),
          cmocka_unit_test(lies_in_the_folder_where_the_checkpoints_cannot_be_written),
          cmocka_unit_test(never_makes_a_start_fail))
