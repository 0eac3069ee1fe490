/* The tests of tests/cuda_emulation on a real card: what stands there in place of the emulation.
 *
 * A run is one run, in whatever order the card takes. Cases that ask what only the emulation knows
 * (faults by kind, live objects) or make a call fail end there as skipped: what they showed until
 * then was shown on the card. */
#include <cstdio>
#include <cstdlib>

#include "tests/cuda_emulation/rig.h"
#include "tests/cuda_emulation/sample_kernels.h"

static void card_skip(const char *what) {
    test_note_skip(what, "needs the emulated device");
    skip();
    abort(); /* skip does not return */
}

bool emulation_is_there() {
    return false;
}

void emulation_reset(uint64_t) {
    assert_cuda(cudaDeviceSynchronize());
}

void emulation_set_memory(size_t) {
    card_skip(__func__);
}

emulation_fault emulation_last_fault() {
    card_skip(__func__);
    return EMULATION_NO_FAULT;
}

const char *emulation_last_report() {
    card_skip(__func__);
    return "";
}

size_t emulation_live_objects() {
    card_skip(__func__);
    return 0;
}

const emulation_noted *emulation_trace(size_t *) {
    card_skip(__func__);
    return nullptr;
}

void emulation_watch_calls(void (*)(void *, const char *), void *) {
    card_skip(__func__);
}

void emulation_lose_device() {
    card_skip(__func__);
}

void emulation_hold_stream(int) {
    card_skip(__func__);
}

unsigned emulation_shuffles(unsigned) {
    return 1;
}

void emulation_fail_call(const char *, unsigned, int) {
    card_skip(__func__);
}

void emulation_set_split_k(int) {
    card_skip(__func__);
}

void rig_each_seed(void (*body)(rig &)) {
    rig rig;
    assert_cuda(cudaStreamCreateWithFlags(&rig.stream, cudaStreamNonBlocking));
    assert_cuda(cudaStreamCreateWithFlags(&rig.other, cudaStreamNonBlocking));
    body(rig);
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(cudaStreamDestroy(rig.stream));
    assert_cuda(cudaStreamDestroy(rig.other));
}

void rig_expect(const rig &, emulation_fault, cudaError_t) {
    card_skip(__func__);
}

/* A card need not notice, and would be lost to the cases that follow. */
void broken_write_before(float *, cudaStream_t) {
    card_skip(__func__);
}
