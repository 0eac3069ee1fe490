#include "tests/cuda_emulation/rig.h"

#define SHUFFLES 2

void rig_each_seed(void (*body)(rig &)) {
    uint64_t random = test_seed();
    unsigned count = emulation_shuffles(SHUFFLES);
    assert_true(count >= 1);
    for (unsigned i = 0; i < count; i++) {
        emulation_reset(test_random(&random));
        rig rig;
        assert_cuda(cudaStreamCreateWithFlags(&rig.stream, cudaStreamNonBlocking));
        assert_cuda(cudaStreamCreateWithFlags(&rig.other, cudaStreamNonBlocking));
        body(rig);
        if (emulation_last_fault() == EMULATION_NO_FAULT) {
            assert_cuda(cudaStreamDestroy(rig.stream));
            assert_cuda(cudaStreamDestroy(rig.other));
            assert_int_equal(emulation_live_objects(), 0);
        }
    }
    emulation_reset(0);
}

void rig_expect(const rig &rig, emulation_fault fault, cudaError_t error) {
    assert_int_equal(cudaStreamSynchronize(rig.stream), error);
    assert_int_equal(emulation_last_fault(), fault);
    assert_string_not_equal(emulation_last_report(), "");
    void *memory = nullptr;
    assert_int_equal(cudaMalloc(&memory, 4), error);
}
