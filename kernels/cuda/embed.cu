/* Embedding rows out of the table that the LM head reads, too, so that a tied one exists once:
 * panels, or the rows of the fast form.
 *
 * Parallelisation: a block of 128 threads a row, a thread for 16 bytes of the table at a time.
 * Bytes moved: of panels, half of each 32-byte sector read is another token's; x once. Bound
 * expected: memory, a few microseconds; not yet measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/panel.h"
#include "kernels/reference/check.h"

#define ROW_THREADS 128u

/* ---------------------------------------------------------------- kernels */

/* Tables: inputs step * ELEMENTS onwards of output n. */
template <typename Panel> struct panel_table {
    static const unsigned ELEMENTS = Panel::ELEMENTS;

    static __device__ __forceinline__ void read(const void *values, uint32_t n, uint32_t step,
                                                uint32_t k, float w[ELEMENTS]) {
        panel_read<Panel>(values, n, step, weight_steps(k, ELEMENTS), w);
    }
};

struct row_table {
    static const unsigned ELEMENTS = panel_f16::ELEMENTS;

    static __device__ __forceinline__ void read(const void *values, uint32_t n, uint32_t step,
                                                uint32_t k, float w[ELEMENTS]) {
        size_t row = static_cast<size_t>(n) * (weight_padded(k) / ELEMENTS);
        panel_f16::unpack(static_cast<const uint4 *>(values)[row + step], w);
    }
};

/* The host cannot see tokens: one outside the table gives a row of NaNs, which is found to be bad
 * like any other. */
template <typename Table>
static __global__ void __launch_bounds__(ROW_THREADS)
    embed_rows(const int32_t *token, const void *values, uint32_t n, uint32_t k, float *x) {
    uint32_t id = static_cast<uint32_t>(token[blockIdx.x]);
    uint32_t steps = weight_steps(k, Table::ELEMENTS);
    float *row = x + static_cast<size_t>(blockIdx.x) * k;
    for (uint32_t step = threadIdx.x; step < steps; step += ROW_THREADS) {
        float w[Table::ELEMENTS];
        if (id < n) {
            Table::read(values, id, step, k, w);
        }
        for (unsigned e = 0; e < Table::ELEMENTS; e++) {
            uint32_t at = step * Table::ELEMENTS + e;
            if (at < k) {
                row[at] = id < n ? w[e] : canonical_float(0x7FC00000u);
            }
        }
    }
}

/* ---------------------------------------------------------------- launchers */

enum kernels_status cuda_embed(cudaStream_t stream, const struct embed_args *args) {
    if (args->rows < 1 || !check_words(args->token) || !check_weight_f32(args->table) ||
        !check_words(args->x)) {
        return KERNELS_INVALID;
    }
    const struct weight_form *form = &args->table->form;
    auto *kernel = form->fast                  ? embed_rows<row_table>
                   : form->type == ELEMENT_F16 ? embed_rows<panel_table<panel_f16>>
                                               : embed_rows<panel_table<panel_f32>>;
    CUDA_LAUNCH(kernel, args->rows, ROW_THREADS, 0, stream, args->token, args->table->packed,
                form->n, form->k, args->x);
    return cuda_launch_status();
}
