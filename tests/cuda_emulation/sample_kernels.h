/* Launchers of the small kernels that the emulation is tested with: some right, each of the others
 * with one mistake that must be found. Only enqueue; errors come through cudaGetLastError. */
#ifndef SOLFLEET_TESTS_CUDA_EMULATION_SAMPLE_KERNELS_H
#define SOLFLEET_TESTS_CUDA_EMULATION_SAMPLE_KERNELS_H

#include <cuda_fp16.h>
#include <cuda_runtime.h>

/* ---------------------------------------------------------------- right_kernels.cu */

void right_block_sum(const int *x, int *sum, int count,
                     cudaStream_t stream); /* sum[blocks of 64] */
void right_transpose(const float *x, float *y, int rows, int columns, cudaStream_t stream);
void right_warp_sum(const float *x, float *xor_sum, float *down_sum, cudaStream_t stream);
void right_warp_exchange(const int *x, int *y, cudaStream_t stream);   /* 32, reversed */
void right_ballot(const int *x, unsigned *votes, cudaStream_t stream); /* 64 -> 2 */
void right_dot(const int8_t *a, const int8_t *b, int *dot, int bytes, cudaStream_t stream);
void right_histogram(const int *x, int *counts, int count, cudaStream_t stream);
void right_reverse(const float *x, float *y, int count, cudaStream_t stream); /* one block */
void right_halves(const float *x, __half *y, int count, cudaStream_t stream);
void right_copy4(const float *x, float *y, int count, cudaStream_t stream);
void right_fill(int *x, int value, int count, cudaStream_t stream);
void right_order(int *ticket, int *order, cudaStream_t stream); /* [4 blocks of 64] */
void right_rejected(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);

/* ---------------------------------------------------------------- broken_kernels.cu */

void broken_no_barrier(const float *x, float *y, int count, cudaStream_t stream);
void broken_no_warp_barrier(const int *x, int *y, cudaStream_t stream);
void broken_blocks_collide(int *x, cudaStream_t stream);
void broken_plain_beside_atomic(int *x, cudaStream_t stream);
void broken_read_past(const float *x, float *y, int count, cudaStream_t stream);
void broken_write_before(float *y, cudaStream_t stream);
void broken_shared_past(float *y, cudaStream_t stream);
void broken_uninitialised_shared(float *y, cudaStream_t stream);
void broken_branch_barrier(int *y, cudaStream_t stream);
void broken_early_return(int *y, cudaStream_t stream);
void broken_two_barriers(int *y, cudaStream_t stream);
void broken_partial_mask(int *y, cudaStream_t stream);
void broken_misaligned4(const float *x, float *y, cudaStream_t stream);
void broken_misaligned2(const int *x, int *y, cudaStream_t stream);
void broken_too_much_shared(float *y, cudaStream_t stream);
float broken_host_reads(const float *x);

#endif
