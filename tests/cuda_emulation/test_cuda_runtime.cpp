/* The emulated runtime: order of streams, events, graphs, refusals, failed calls. */
#include "tests/cuda_emulation/rig.h"
#include "tests/cuda_emulation/sample_kernels.h"

/* ---------------------------------------------------------------- streams */

static void runs_nothing_before_the_host_waits(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory<int>(1), *host = nullptr;
        assert_cuda(cudaMallocHost(reinterpret_cast<void **>(&host), sizeof *host));
        *host = 5;
        right_fill(x, 9, 1, rig.stream);
        assert_cuda(cudaMemcpyAsync(host, x, sizeof *host, cudaMemcpyDeviceToHost, rig.stream));
        assert_int_equal(*host, 5);
        assert_cuda(cudaStreamSynchronize(rig.stream));
        assert_int_equal(*host, 9);
        assert_cuda(cudaFree(x));
        assert_cuda(cudaFreeHost(host));
    });
}

static void keeps_the_order_of_a_stream(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory<int>(40);
        for (int i = 0; i < 20; i++) {
            right_fill(x, i, 40, rig.stream);
        }
        std::vector<int> values = rig_take(rig, x, 40);
        assert_int_equal(values[39], 19);
    });
}

static void orders_streams_by_events_only(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory<int>(1);
        cudaEvent_t event;
        assert_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        for (int i = 0; i < 10; i++) {
            right_fill(x, i, 1, rig.other);
        }
        assert_cuda(cudaEventRecord(event, rig.other));
        assert_cuda(cudaStreamWaitEvent(rig.stream, event, 0));
        assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
        right_fill(x, 77, 1, rig.stream);
        assert_int_equal(rig_take(rig, x, 1)[0], 77);
        assert_cuda(cudaEventSynchronize(event));
        assert_cuda(cudaEventQuery(event));
        assert_cuda(cudaEventDestroy(event));
    });
}

static void lets_streams_without_events_overtake(void **state) {
    int first_won = 0, runs = 64;
    for (int i = 0; i < runs; i++) {
        emulation_reset(static_cast<uint64_t>(i));
        cudaStream_t one, two;
        assert_cuda(cudaStreamCreateWithFlags(&one, 0));
        assert_cuda(cudaStreamCreateWithFlags(&two, 0));
        int *x = rig_memory<int>(1), value = 0;
        right_fill(x, 1, 1, one);
        right_fill(x, 2, 1, two);
        assert_cuda(cudaDeviceSynchronize());
        assert_cuda(cudaMemcpyAsync(&value, x, sizeof value, cudaMemcpyDeviceToHost, one));
        first_won += value == 1;
    }
    emulation_reset(0);
    assert_in_range(first_won, 1, runs - 1);
}

/* ---------------------------------------------------------------- graphs */

static void copies_arguments_when_a_graph_is_captured(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory<int>(8);
        int value = 3;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        assert_cuda(cudaStreamBeginCapture(rig.stream, cudaStreamCaptureModeThreadLocal));
        right_fill(x, value, 8, rig.stream);
        assert_cuda(cudaStreamEndCapture(rig.stream, &graph));
        value = 4;
        assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
        assert_cuda(cudaGraphDestroy(graph));
        right_fill(x, 9, 8, rig.stream); /* capturing ran nothing: 9 would win */
        assert_cuda(cudaGraphLaunch(exec, rig.stream));
        assert_cuda(cudaGraphLaunch(exec, rig.stream));
        assert_int_equal(rig_take(rig, x, 8)[7], 3);
        assert_cuda(cudaGraphExecDestroy(exec));
    });
}

static void spoils_a_capture_by_calls_that_wait(void **state) {
    rig_each_seed([](rig &rig) {
        cudaGraph_t graph;
        void *memory = nullptr;
        assert_cuda(cudaStreamBeginCapture(rig.stream, cudaStreamCaptureModeGlobal));
        assert_int_equal(cudaStreamSynchronize(rig.stream), cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaStreamEndCapture(rig.stream, &graph),
                         cudaErrorStreamCaptureInvalidated);
        assert_null(graph);
        assert_cuda(cudaStreamBeginCapture(rig.stream, cudaStreamCaptureModeGlobal));
        assert_int_equal(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaStreamEndCapture(rig.stream, &graph),
                         cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaStreamEndCapture(rig.stream, &graph), cudaErrorInvalidValue);
    });
}

/* ---------------------------------------------------------------- arguments */

static void refuses_bad_arguments(void **state) {
    rig_each_seed([](rig &rig) {
        int *x = rig_memory<int>(4), value[5] = {0};
        assert_int_equal(cudaMemcpyAsync(x, value, 20, cudaMemcpyHostToDevice, rig.stream),
                         cudaErrorInvalidValue);
        assert_int_equal(cudaMemcpyAsync(value, value, 4, cudaMemcpyDeviceToHost, rig.stream),
                         cudaErrorInvalidValue);
        assert_int_equal(cudaMemcpyAsync(x, value, 4, static_cast<cudaMemcpyKind>(0), rig.stream),
                         cudaErrorInvalidMemcpyDirection);
        assert_int_equal(cudaMemcpyAsync(x, value, 4, cudaMemcpyHostToDevice, nullptr),
                         cudaErrorInvalidResourceHandle);
        assert_int_equal(cudaMemsetAsync(x + 1, 0, 16, rig.stream), cudaErrorInvalidValue);
        assert_int_equal(cudaFree(x + 1), cudaErrorInvalidValue);
        assert_int_equal(cudaFreeHost(x), cudaErrorInvalidValue);
        assert_int_equal(cudaSetDevice(1), cudaErrorInvalidDevice);
        assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
        assert_cuda(cudaGetLastError()); /* told once */
        assert_cuda(cudaFree(x));
    });
}

static void refuses_impossible_launches(void **state) {
    rig_each_seed([](rig &rig) {
        const struct {
            dim3 grid, block;
            size_t shared_bytes;
        } bad[] = {{0, 32, 0},
                   {1, 0, 0},
                   {1, 1025, 0},
                   {1, dim3(33, 32), 0},
                   {dim3(1, 65536), 1, 0},
                   {dim3(1, 1, 2), 1, 0},
                   {1, 1, 49153}};
        for (const auto &one : bad) {
            right_rejected(one.grid, one.block, one.shared_bytes, rig.stream);
            assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
        }
        right_rejected(2, 64, 49152, rig.stream);
        assert_cuda(cudaGetLastError());
        right_rejected(1, 1, 0, nullptr);
        assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    });
}

static void runs_out_of_memory(void **state) {
    rig_each_seed([](rig &rig) {
        emulation_set_memory(4096);
        size_t free_bytes, total_bytes;
        void *memory = nullptr, *more = nullptr;
        assert_cuda(cudaMalloc(&memory, 3000));
        assert_int_equal(cudaMalloc(&more, 2000), cudaErrorMemoryAllocation);
        assert_null(more);
        assert_cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
        assert_int_equal(free_bytes, 4096 - 3072);
        assert_int_equal(total_bytes, 4096);
        assert_cuda(cudaFree(memory));
        assert_cuda(cudaMalloc(&more, 2000));
        assert_cuda(cudaFree(more));
    });
}

static void describes_the_device(void **state) {
    rig_each_seed([](rig &rig) {
        cudaDeviceProp properties;
        int count = 0, version = 0;
        assert_cuda(cudaGetDeviceCount(&count));
        assert_int_equal(count, 1);
        assert_cuda(cudaGetDeviceProperties(&properties, 0));
        assert_int_equal(properties.warpSize, 32);
        assert_string_equal(properties.name, "emulation");
        assert_cuda(cudaRuntimeGetVersion(&version));
        assert_int_equal(version, 13000);
        assert_string_equal(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
    });
}

/* ---------------------------------------------------------------- failed calls */

static void fails_the_call_that_was_named(void **state) {
    rig_each_seed([](rig &rig) {
        void *memory = nullptr;
        emulation_fail_call("cudaMalloc", 2, cudaErrorMemoryAllocation);
        assert_cuda(cudaMalloc(&memory, 4));
        assert_cuda(cudaStreamSynchronize(rig.stream));
        void *second = nullptr;
        assert_int_equal(cudaMalloc(&second, 4), cudaErrorMemoryAllocation);
        assert_null(second);
        assert_cuda(cudaMalloc(&second, 4));
        emulation_fail_call("launch", 1, cudaErrorLaunchFailure);
        right_rejected(1, 1, 0, rig.stream);
        assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
        emulation_fail_call(nullptr, 1, cudaErrorNoDevice);
        assert_int_equal(cudaSetDevice(0), cudaErrorNoDevice);
        assert_cuda(cudaFree(memory));
        assert_cuda(cudaFree(second));
    });
}

TEST_MAIN(cmocka_unit_test(runs_nothing_before_the_host_waits),
          cmocka_unit_test(keeps_the_order_of_a_stream),
          cmocka_unit_test(orders_streams_by_events_only),
          cmocka_unit_test(lets_streams_without_events_overtake),
          cmocka_unit_test(copies_arguments_when_a_graph_is_captured),
          cmocka_unit_test(spoils_a_capture_by_calls_that_wait),
          cmocka_unit_test(refuses_bad_arguments), cmocka_unit_test(refuses_impossible_launches),
          cmocka_unit_test(runs_out_of_memory), cmocka_unit_test(describes_the_device),
          cmocka_unit_test(fails_the_call_that_was_named))
