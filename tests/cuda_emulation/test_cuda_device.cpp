/* The CUDA device through device.h, on the emulation: memory, copies, order, graphs, its own words
 * after a fault, and every call of the runtime made to fail once. */
#include <cstdio>
#include <cstring>

#include "kernels/cuda/cuda_device.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "tests/cuda_emulation/rig.h"
#include "tests/cuda_emulation/sample_kernels.h"

#define CALLS_MAX 200u /* of a body; a body that never ends without a failure is a defect */

static struct device *opened(const char *spec) {
    struct device_options options = {spec, nullptr, 0, nullptr};
    struct device *device = nullptr;
    char err[256] = "";
    if (device_open(&options, &device, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
    device_enter_thread(device);
    return device;
}

static void *allocated(struct device *device, enum device_memory kind, size_t bytes) {
    void *memory = nullptr;
    assert_int_equal(device_alloc(device, kind, bytes, &memory), KERNELS_OK);
    assert_int_equal(reinterpret_cast<uintptr_t>(memory) % KERNELS_ALIGNMENT_BYTES, 0);
    return memory;
}

static void synchronised(struct device *device) {
    char err[256] = "";
    if (device_sync(device, err, sizeof err) != KERNELS_OK) {
        fail_msg("%s", err);
    }
}

/* ---------------------------------------------------------------- opening */

static void describes_the_card(void **state) {
    rig_each_seed([](rig &rig) {
        for (const char *spec : {"cuda:0", "auto"}) {
            struct device *device = opened(spec);
            struct device_info info;
            device_describe(device, &info);
            assert_string_equal(info.name, "emulation");
            assert_string_equal(info.tier, "cuda");
            assert_string_equal(info.numerics, "cuda-sm80-1");
            assert_non_null(strstr(info.numerics_fast, "cuda-sm80-1-fast-cublaslt130100-"));
            assert_string_equal(device_ops(device)->tier, info.tier);
            assert_int_equal(info.memory_bytes, size_t{256} << 20);
            assert_int_equal(info.memory_free_bytes, info.memory_bytes);
            assert_false(info.memory_is_host);
            assert_true(info.fixed_row_shapes);
            assert_true(info.has_graphs);
            void *memory = allocated(device, DEVICE_MEMORY, size_t{1} << 20);
            device_describe(device, &info);
            assert_true(info.memory_free_bytes <= info.memory_bytes - (size_t{1} << 20));
            device_free(device, DEVICE_MEMORY, memory);
            device_close(device);
        }
    });
}

static enum kernels_status open_status(const char *spec, const char *cublaslt, char *err) {
    struct device_options options = {spec, "reference", 1, cublaslt};
    struct device *device = nullptr;
    enum kernels_status status = device_open(&options, &device, err, 256);
    if (status == KERNELS_OK) {
        struct device_info info;
        device_describe(device, &info);
        snprintf(err, 256, "%s", info.tier);
    } else {
        assert_null(device);
    }
    device_close(device);
    return status;
}

static void says_why_there_is_no_card(void **state) {
    rig_each_seed([](rig &rig) {
        char err[256] = "";
        assert_int_equal(open_status("cuda:1", nullptr, err), KERNELS_NO_DEVICE);
        assert_string_equal(err, "no CUDA device: cuda:1 of 1");
        emulation_fail_call("cudaGetDeviceCount", 1, cudaErrorNoDevice);
        assert_int_equal(open_status("cuda:0", nullptr, err), KERNELS_NO_DEVICE);
        assert_string_equal(err, "no CUDA device: cudaErrorNoDevice");
        emulation_fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
        assert_int_equal(open_status("cuda:0", nullptr, err), KERNELS_NO_DEVICE);
        assert_string_equal(err, "no CUDA device: the driver is CUDA 13.0's, 13.0 is needed");
    });
}

static void auto_takes_the_cpu_only_where_there_is_no_card(void **state) {
    rig_each_seed([](rig &rig) {
        char err[256] = "";
        emulation_fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
        assert_int_equal(open_status("auto", nullptr, err), KERNELS_OK);
        assert_string_equal(err, "reference");
        emulation_fail_call("cudaGetDeviceProperties", 1, cudaErrorLaunchFailure);
        assert_int_equal(open_status("auto", nullptr, err), KERNELS_FAILED);
        assert_non_null(strstr(err, "cudaErrorLaunchFailure"));
        assert_int_equal(open_status("auto", "/no/libcublasLt.so", err), KERNELS_UNSUPPORTED);
        assert_non_null(strstr(err, "/no/libcublasLt.so"));
    });
}

/* ---------------------------------------------------------------- memory, copies, order */

static void copies_there_and_back_on_either_stream(void **state) {
    rig_each_seed([](rig &rig) {
        struct device *device = opened("cuda:0");
        for (enum device_stream stream : {DEVICE_STREAM_COMPUTE, DEVICE_STREAM_COPY}) {
            auto *pinned = static_cast<char *>(allocated(device, DEVICE_MEMORY_PINNED, 300));
            auto *memory = static_cast<char *>(allocated(device, DEVICE_MEMORY, 300));
            memset(pinned, 'a', 300);
            assert_int_equal(device_copy_in(device, stream, memory, pinned, 300), KERNELS_OK);
            assert_int_equal(device_fill(device, stream, memory + 100, 'b', 100), KERNELS_OK);
            synchronised(device);
            memset(pinned, 0, 300);
            assert_int_equal(device_copy_out(device, stream, pinned, memory, 300), KERNELS_OK);
            assert_int_equal(pinned[0], 0); /* asynchronous */
            synchronised(device);
            assert_true(pinned[99] == 'a' && pinned[100] == 'b' && pinned[199] == 'b' &&
                        pinned[200] == 'a');
            device_free(device, DEVICE_MEMORY, memory);
            device_free(device, DEVICE_MEMORY_PINNED, pinned);
        }
        device_close(device);
    });
}

static void orders_its_streams_by_events(void **state) {
    rig_each_seed([](rig &rig) {
        struct device *device = opened("cuda:0");
        struct device_event *event = nullptr;
        auto *from = static_cast<int *>(allocated(device, DEVICE_MEMORY_PINNED, sizeof(int)));
        auto *x = static_cast<int *>(allocated(device, DEVICE_MEMORY, sizeof(int)));
        assert_int_equal(device_event_open(device, &event), KERNELS_OK);
        for (int i = 0; i < 10; i++) {
            *from = i;
            right_fill(x, 100 + i, 1, cuda_device_stream(device));
            assert_int_equal(device_event_record(device, event, DEVICE_STREAM_COMPUTE), KERNELS_OK);
            assert_int_equal(device_event_wait(device, event, DEVICE_STREAM_COPY), KERNELS_OK);
            assert_int_equal(device_copy_in(device, DEVICE_STREAM_COPY, x, from, sizeof *x),
                             KERNELS_OK);
            synchronised(device);
            int value = 0;
            assert_int_equal(
                device_copy_out(device, DEVICE_STREAM_COMPUTE, &value, x, sizeof value),
                KERNELS_OK);
            synchronised(device);
            assert_int_equal(value, i);
        }
        device_event_close(device, event);
        device_free(device, DEVICE_MEMORY, x);
        device_free(device, DEVICE_MEMORY_PINNED, from);
        device_close(device);
    });
}

static void refuses_arguments_that_are_none(void **state) {
    rig_each_seed([](rig &rig) {
        struct device *device = opened("cuda:0");
        void *memory = allocated(device, DEVICE_MEMORY, 64), *none = &none;
        char host[64];
        auto nowhere = static_cast<enum device_stream>(DEVICE_STREAM_COUNT);
        assert_int_equal(device_alloc(device, DEVICE_MEMORY, 0, &none), KERNELS_INVALID);
        assert_null(none);
        assert_int_equal(device_copy_in(device, nowhere, memory, host, 64), KERNELS_INVALID);
        assert_int_equal(device_copy_in(device, DEVICE_STREAM_COPY, nullptr, host, 64),
                         KERNELS_INVALID);
        assert_int_equal(device_copy_out(device, DEVICE_STREAM_COPY, host, nullptr, 64),
                         KERNELS_INVALID);
        assert_int_equal(device_fill(device, nowhere, memory, 0, 64), KERNELS_INVALID);
        assert_int_equal(device_fill(device, DEVICE_STREAM_COPY, nullptr, 0, 64), KERNELS_INVALID);
        assert_int_equal(device_event_record(device, nullptr, DEVICE_STREAM_COPY), KERNELS_INVALID);
        assert_int_equal(device_event_wait(device, nullptr, DEVICE_STREAM_COPY), KERNELS_INVALID);
        assert_int_equal(device_copy_in(device, nowhere, nullptr, nullptr, 0), KERNELS_OK);
        device_free(device, DEVICE_MEMORY, memory);
        device_close(device);
    });
}

static void goes_on_after_memory_ran_out(void **state) {
    rig_each_seed([](rig &rig) {
        struct device *device = opened("cuda:0");
        void *memory = nullptr;
        assert_int_equal(device_alloc(device, DEVICE_MEMORY, size_t{1} << 40, &memory),
                         KERNELS_NO_MEMORY);
        assert_null(memory);
        assert_int_equal(cudaGetLastError(), cudaSuccess); /* not the next launch's */
        memory = allocated(device, DEVICE_MEMORY, 64);
        synchronised(device);
        device_free(device, DEVICE_MEMORY, memory);
        device_close(device);
    });
}

/* ---------------------------------------------------------------- graphs */

static void launches_what_it_captured_as_often_as_asked(void **state) {
    rig_each_seed([](rig &rig) {
        struct device *device = opened("cuda:0");
        struct device_graph *graph = nullptr;
        auto *x = static_cast<int *>(allocated(device, DEVICE_MEMORY, 64 * sizeof(int)));
        auto *sum = static_cast<int *>(allocated(device, DEVICE_MEMORY, sizeof(int)));
        right_fill(x, 1, 64, cuda_device_stream(device));
        assert_int_equal(device_graph_begin(device), KERNELS_OK);
        right_block_sum(x, sum, 64, cuda_device_stream(device));
        assert_int_equal(device_graph_end(device, &graph), KERNELS_OK);
        for (int i = 1; i < 4; i++) {
            int value = 0;
            right_fill(x, i, 64, cuda_device_stream(device));
            assert_int_equal(device_graph_launch(device, graph), KERNELS_OK);
            assert_int_equal(
                device_copy_out(device, DEVICE_STREAM_COMPUTE, &value, sum, sizeof value),
                KERNELS_OK);
            synchronised(device);
            assert_int_equal(value, 64 * i);
        }
        device_graph_close(device, graph);
        device_free(device, DEVICE_MEMORY, x);
        device_free(device, DEVICE_MEMORY, sum);
        device_close(device);
    });
}

static void gives_no_graph_when_a_capture_is_spoilt(void **state) {
    rig_each_seed([](rig &rig) {
        struct device *device = opened("cuda:0");
        struct device_graph *graph = nullptr;
        void *memory = nullptr;
        assert_int_equal(device_graph_begin(device), KERNELS_OK);
        assert_int_equal(device_alloc(device, DEVICE_MEMORY, 64, &memory), KERNELS_FAILED);
        assert_int_equal(device_graph_end(device, &graph), KERNELS_FAILED);
        assert_null(graph);
        synchronised(device); /* and goes on */
        device_close(device);
    });
}

/* ---------------------------------------------------------------- faults */

static void tells_a_fault_in_the_devices_words_from_then_on(void **state) {
    rig_each_seed([](rig &rig) {
        struct device *device = opened("cuda:0");
        auto *y = static_cast<float *>(allocated(device, DEVICE_MEMORY, 4 * sizeof(float)));
        broken_write_before(y, cuda_device_stream(device));
        for (int i = 0; i < 2; i++) {
            char err[256] = "";
            assert_int_equal(device_sync(device, err, sizeof err), KERNELS_FAILED);
            assert_non_null(strstr(err, "cudaErrorIllegalAddress"));
            assert_int_equal(device_fill(device, DEVICE_STREAM_COMPUTE, y, 0, 4), KERNELS_FAILED);
        }
        device_free(device, DEVICE_MEMORY, y);
        device_close(device);
    });
}

/* A capture is ended whatever happened in it. */
static bool capture_all(struct device *device, void *memory, struct device_graph **graph) {
    if (device_graph_begin(device) != KERNELS_OK) {
        return false;
    }
    bool is_filled = device_fill(device, DEVICE_STREAM_COMPUTE, memory, 0, 64) == KERNELS_OK;
    return device_graph_end(device, graph) == KERNELS_OK && is_filled;
}

/* Everything once; false at the first call that fails. */
static bool use_all(struct device *device, void *memory, void *pinned, struct device_event *event,
                    struct device_graph **graph) {
    char err[256];
    memset(pinned, 7, 64);
    return device_copy_in(device, DEVICE_STREAM_COPY, memory, pinned, 64) == KERNELS_OK &&
           device_event_record(device, event, DEVICE_STREAM_COPY) == KERNELS_OK &&
           device_event_wait(device, event, DEVICE_STREAM_COMPUTE) == KERNELS_OK &&
           device_fill(device, DEVICE_STREAM_COMPUTE, memory, 0, 32) == KERNELS_OK &&
           capture_all(device, memory, graph) &&
           device_graph_launch(device, *graph) == KERNELS_OK &&
           device_copy_out(device, DEVICE_STREAM_COMPUTE, pinned, memory, 64) == KERNELS_OK &&
           device_sync(device, err, sizeof err) == KERNELS_OK;
}

/* A life of a device; false when a call failed, which must be told and leave nothing behind. */
static bool live_once(char *err) {
    struct device_options options = {"cuda:0", nullptr, 0, nullptr};
    struct device *device = nullptr;
    struct device_event *event = nullptr;
    struct device_graph *graph = nullptr;
    void *memory = nullptr, *pinned = nullptr;
    if (device_open(&options, &device, err, 256) != KERNELS_OK) {
        assert_null(device);
        assert_string_not_equal(err, "");
        return false;
    }
    bool is_whole =
        device_alloc(device, DEVICE_MEMORY, 64, &memory) == KERNELS_OK &&
        device_alloc(device, DEVICE_MEMORY_PINNED, 64, &pinned) == KERNELS_OK &&
        device_event_open(device, &event) == KERNELS_OK &&
        use_all(device, memory,
                memset(pinned, 7, 64) != nullptr ? static_cast<char *>(pinned) : nullptr, event,
                &graph);
    device_graph_close(device, graph);
    device_event_close(device, event);
    device_free(device, DEVICE_MEMORY, memory);
    device_free(device, DEVICE_MEMORY_PINNED, pinned);
    device_close(device);
    return is_whole;
}

static void tells_each_failed_call_and_leaks_nothing(void **state) {
    for (cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorLaunchFailure}) {
        unsigned failed = 0;
        for (unsigned nth = 1; nth <= CALLS_MAX; nth++) {
            emulation_reset(nth);
            emulation_fail_call(nullptr, nth, error);
            char err[256] = "";
            bool is_whole = live_once(err);
            failed += !is_whole;
            assert_true(is_whole || emulation_live_objects() == 0); /* a call that frees may fail */
            assert_int_equal(cudaGetLastError(), cudaSuccess);
        }
        emulation_reset(0);
        assert_in_range(failed, 15, CALLS_MAX - 10);
    }
}

TEST_MAIN(cmocka_unit_test(describes_the_card), cmocka_unit_test(says_why_there_is_no_card),
          cmocka_unit_test(auto_takes_the_cpu_only_where_there_is_no_card),
          cmocka_unit_test(copies_there_and_back_on_either_stream),
          cmocka_unit_test(orders_its_streams_by_events),
          cmocka_unit_test(refuses_arguments_that_are_none),
          cmocka_unit_test(goes_on_after_memory_ran_out),
          cmocka_unit_test(launches_what_it_captured_as_often_as_asked),
          cmocka_unit_test(gives_no_graph_when_a_capture_is_spoilt),
          cmocka_unit_test(tells_a_fault_in_the_devices_words_from_then_on),
          cmocka_unit_test(tells_each_failed_call_and_leaks_nothing))
