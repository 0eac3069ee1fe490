/* Opening, describing and using a device, and what is said when there is none. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cpu_device.h"
#include "kernels/device.h"
#include "kernels/ops.h"

static struct device *opened(const char *tier, uint32_t threads) {
    const struct device_options options = {.spec = "cpu", .tier = tier, .threads = threads};
    struct device *device = NULL;
    char err[256] = "";
    if (device_open(&options, &device, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
    return device;
}

static void refuses_what_is_not_here_and_says_why(void **state) {
    const struct {
        struct device_options options;
        const char *said;
    } cases[] = {
        {{.spec = "cuda:0"}, "no CUDA device: this build has no CUDA back end"},
        {{.spec = "tpu"}, "device 'tpu' is unknown: use cpu, cuda:N or auto"},
        {{.spec = "cuda:"}, "device 'cuda:' is unknown: use cpu, cuda:N or auto"},
        {{.spec = "cuda:0x"}, "device 'cuda:0x' is unknown: use cpu, cuda:N or auto"},
        {{.spec = "cuda:12345"}, "device 'cuda:12345' is unknown: use cpu, cuda:N or auto"},
        {{.spec = "cpu", .tier = "sse9"}, "tier 'sse9' is unknown: use reference, avx2 or avx512"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct device *device = (struct device *)(void *)&device;
        char err[256] = "";
        assert_int_equal(device_open(&cases[i].options, &device, err, sizeof err),
                         KERNELS_NO_DEVICE);
        assert_string_equal(err, cases[i].said);
        assert_null(device);
    }
}

static const char *tier_on(const char *tier, const struct cpu_features *features, char *err) {
    err[0] = '\0';
    const struct kernel_ops *ops = cpu_device_ops(tier, features, err, 256);
    assert_true((ops == NULL) == (err[0] != '\0'));
    return ops != NULL ? ops->tier : NULL;
}

/* Processors as their registers describe them: with everything, AVX2 only, nothing. */
static void runs_the_best_tier_of_a_processor_and_refuses_others_by_name(void **state) {
    const struct cpu_features new = {0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu};
    const struct cpu_features old = {0xFFFFFFFFu, 1u << 5, 0, 0x7u}, none = {0};
    char err[256];
    assert_string_equal(tier_on(NULL, &new, err), "avx512");
    assert_string_equal(tier_on("", &old, err), "avx2");
    assert_string_equal(tier_on("avx512", &new, err), "avx512");
    assert_string_equal(tier_on("avx2", &new, err), "avx2");
    assert_string_equal(tier_on("avx2", &old, err), "avx2");
    assert_string_equal(tier_on("reference", &old, err), "reference");
    assert_null(tier_on("avx512", &old, err));
    assert_string_equal(err, "tier avx512: this processor lacks avx512f, avx512dq, avx512bw, "
                             "avx512vl, avx512_vnni");
    assert_null(tier_on("avx2", &none, err));
    assert_string_equal(err, "tier avx2: this processor lacks avx2, fma, f16c");
    assert_null(tier_on(NULL, &none, err));
    assert_string_equal(err, "this processor lacks avx2, fma, f16c");
}

static void refuses_more_threads_than_a_pool_has(void **state) {
    const struct device_options options = {.spec = "cpu", .tier = "reference", .threads = 100000};
    struct device *device = NULL;
    char err[256] = "";
    assert_int_equal(device_open(&options, &device, err, sizeof err), KERNELS_INVALID);
    assert_non_null(strstr(err, "100000 threads"));
    device_close(device);
}

static void auto_is_the_cpu_where_no_card_is_built_in(void **state) {
    const struct device_options options = {.spec = "auto", .tier = "reference", .threads = 1};
    struct device *device = NULL;
    char err[256] = "";
    assert_int_equal(device_open(&options, &device, err, sizeof err), KERNELS_OK);
    struct device_info info;
    device_describe(device, &info);
    assert_string_equal(info.tier, "reference");
    device_close(device);
}

static void describes_itself(void **state) {
    struct device *device = opened("reference", 2);
    struct device_info info;
    device_describe(device, &info);
    assert_string_equal(info.tier, "reference");
    assert_string_equal(info.numerics, "cpu-1");
    assert_string_equal(device_ops(device)->tier, "reference");
    assert_int_equal(info.threads, 2);
    assert_true(info.few_rows >= 1);
    assert_true(info.name[0] != '\0');
    assert_true(info.memory_is_host && !info.has_graphs && !info.fixed_row_shapes);
    assert_true(info.memory_bytes > info.memory_free_bytes && info.memory_free_bytes > 0);
    device_close(device);
}

static void uses_every_core_the_process_may_use_when_not_told(void **state) {
    struct device *device = opened("reference", 0);
    struct device_info info;
    device_describe(device, &info);
    assert_true(info.threads >= 1);
    device_close(device);
}

static void gives_aligned_memory_and_copies_both_ways(void **state) {
    struct device *device = opened("reference", 1);
    const size_t sizes[] = {1, 63, 64, 4097, (4u << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *memory = NULL;
        assert_int_equal(device_alloc(device, DEVICE_MEMORY, sizes[i], &memory), KERNELS_OK);
        assert_int_equal((uintptr_t)memory % KERNELS_ALIGNMENT_BYTES, 0);
        const char in = 7;
        char out = 0, last = 0;
        assert_int_equal(device_fill(device, DEVICE_STREAM_COMPUTE, memory, 3, sizes[i]),
                         KERNELS_OK);
        assert_int_equal(device_copy_in(device, DEVICE_STREAM_COPY, memory, &in, 1), KERNELS_OK);
        assert_int_equal(device_copy_out(device, DEVICE_STREAM_COPY, &out, memory, 1), KERNELS_OK);
        assert_int_equal(
            device_copy_out(device, DEVICE_STREAM_COPY, &last, (char *)memory + sizes[i] - 1, 1),
            KERNELS_OK);
        assert_int_equal(out, 7);
        assert_int_equal(last, sizes[i] == 1 ? 7 : 3);
        device_free(device, DEVICE_MEMORY, memory);
    }
    void *none = &none;
    assert_int_equal(device_alloc(device, DEVICE_MEMORY, 0, &none), KERNELS_INVALID);
    assert_null(none);
    assert_int_equal(device_alloc(device, DEVICE_MEMORY, SIZE_MAX - 8, &none), KERNELS_NO_MEMORY);
    device_free(device, DEVICE_MEMORY, NULL);
    device_close(device);
    device_close(NULL);
}

static void orders_streams_by_events(void **state) {
    struct device *device = opened("reference", 1);
    struct device_event *event = NULL;
    char err[64] = "";
    assert_int_equal(device_event_open(device, &event), KERNELS_OK);
    assert_int_equal(device_event_record(device, event, DEVICE_STREAM_COPY), KERNELS_OK);
    assert_int_equal(device_event_wait(device, event, DEVICE_STREAM_COMPUTE), KERNELS_OK);
    assert_int_equal(device_event_wait(device, NULL, DEVICE_STREAM_COMPUTE), KERNELS_INVALID);
    assert_int_equal(device_sync(device, err, sizeof err), KERNELS_OK);
    device_event_close(device, event);
    device_event_close(device, NULL);
    device_close(device);
}

static void refuses_graphs_where_it_has_none(void **state) {
    struct device *device = opened("reference", 1);
    struct device_graph *graph = NULL;
    assert_int_equal(device_graph_begin(device), KERNELS_UNSUPPORTED);
    assert_int_equal(device_graph_end(device, &graph), KERNELS_UNSUPPORTED);
    assert_int_equal(device_graph_launch(device, graph), KERNELS_UNSUPPORTED);
    device_graph_close(device, NULL);
    device_close(device);
}

static void names_the_op_that_a_table_lacks(void **state) {
    struct device *device = opened("reference", 1);
    const enum kernel_op ops[] = {KERNEL_OP_embed, KERNEL_OP_attention, KERNEL_OP_head_sample};
    char err[128] = "";
    assert_int_equal(kernel_ops_require(device_ops(device), ops, 3, err, sizeof err), KERNELS_OK);
    struct kernel_ops without = *device_ops(device);
    without.attention = NULL;
    without.gelu = NULL;
    assert_int_equal(kernel_ops_require(&without, ops, 3, err, sizeof err), KERNELS_UNSUPPORTED);
    assert_string_equal(err, "the reference kernels lack the op attention");
    device_close(device);
}

static void has_every_op_of_the_table_in_the_reference(void **state) {
    struct device *device = opened("reference", 1);
    for (int op = 0; op < KERNEL_OP_COUNT; op++) {
        const enum kernel_op one = (enum kernel_op)op;
        char err[128] = "";
        assert_int_equal(kernel_ops_require(device_ops(device), &one, 1, err, sizeof err),
                         KERNELS_OK);
    }
    device_close(device);
}

TEST_MAIN(cmocka_unit_test(refuses_what_is_not_here_and_says_why),
          cmocka_unit_test(runs_the_best_tier_of_a_processor_and_refuses_others_by_name),
          cmocka_unit_test(refuses_more_threads_than_a_pool_has),
          cmocka_unit_test(auto_is_the_cpu_where_no_card_is_built_in),
          cmocka_unit_test(describes_itself),
          cmocka_unit_test(uses_every_core_the_process_may_use_when_not_told),
          cmocka_unit_test(gives_aligned_memory_and_copies_both_ways),
          cmocka_unit_test(orders_streams_by_events),
          cmocka_unit_test(refuses_graphs_where_it_has_none),
          cmocka_unit_test(names_the_op_that_a_table_lacks),
          cmocka_unit_test(has_every_op_of_the_table_in_the_reference))
