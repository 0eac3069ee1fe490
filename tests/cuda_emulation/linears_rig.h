/* What tests of the CUDA linears share: cuBLASLt's stand-in, and packed weights on the emulated
 * device. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_LINEARS_RIG_H
#define SOLFLEET_TESTS_CUDA_EMULATION_LINEARS_RIG_H

#include "kernels/cuda/cuda_ops.h"
#include "tests/cuda_emulation/twin.h"

/* cuBLASLt's stand-in, open for the life of this. */
struct linears_blas {
    cublaslt_api api;
    cuda_blas *blas;
    linears_blas();
    ~linears_blas();
    linears_blas(const linears_blas &) = delete;
    linears_blas &operator=(const linears_blas &) = delete;
};

/* Packed by cuda_weight_pack, on the device, prepared for the row counts. */
weight linears_weight(const rig &rig, cuda_blas *blas, const weight_form &form,
                      const weight_source &source, const std::vector<uint32_t> &rows);
void linears_weight_free(cuda_blas *blas, weight *weight);

kernels_workspace linears_workspace(size_t bytes);

/* As RUN_TWINS, for an op that takes cuBLASLt. */
#define RUN_TWINS_BLAS(rig, library, reference, op, arguments)                               \
    do {                                                                                     \
        auto on_host_ = arguments(ON_HOST);                                                  \
        auto on_device_ = arguments(ON_DEVICE);                                              \
        assert_int_equal((reference).ops().op((reference).device(), &on_host_), KERNELS_OK); \
        assert_int_equal(cuda_##op((library).blas, (rig).stream, &on_device_), KERNELS_OK);  \
    } while (0)

/* Fails, naming the label, at the first difference of bits; a NaN equals any NaN. */
void linears_same(const std::vector<float> &got, const std::vector<float> &wanted,
                  const char *label);

#endif
