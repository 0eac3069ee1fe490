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

/* Fails, naming the label, at the first difference of bits; a NaN equals any NaN. */
void linears_same(const std::vector<float> &got, const std::vector<float> &wanted,
                  const char *label);

#endif
