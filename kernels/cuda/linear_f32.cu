/* Rows of floats times a 16- or 32-bit weight: an FMA chain an output, over ascending k, by one
 * thread. The chain is never split, so a small N leaves a large card idle: 4 cycles a step of k
 * whatever is done.
 *
 * Few rows (1 to 8). Parallelisation: a lane an output, a warp a panel of 32; a block of 2 warps
 * stages 256 inputs of the rows in shared memory. Bytes moved: w once from memory, x once for each
 * 64 outputs from cache. Bound expected: memory from some 50,000 outputs (heads), else latency.
 * Tiles (more rows). Parallelisation: tile.h, 32 inputs at a time through shared memory, converted
 * on the way. Bytes moved: w once for each 16, 32 or 64 rows, x once for each 64 outputs, mostly
 * from cache. Bound expected: f32 FMA. Neither is measured on a card. */
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/f32_call.h"
#include "kernels/cuda/linear_fast.h"
#include "kernels/cuda/panel.h"
#include "kernels/cuda/tile.h"
#include "kernels/reference/check.h"

#define FEW_THREADS 64u
#define FEW_PANELS (FEW_THREADS / WEIGHT_PANEL)
#define CHUNK 256u /* inputs of the rows in shared memory at a time */

#define TILE_STEPS 32u

/* ---------------------------------------------------------------- kernels */

/* Inputs k .. k + CHUNK - 1 of every row; past K there is nothing that a chain reads. */
template <unsigned ROWS>
static __device__ __forceinline__ void stage_rows(const f32_call &call, uint32_t k,
                                                  float (*x)[CHUNK]) {
    for (unsigned r = 0; r < ROWS; r++) {
        for (unsigned i = threadIdx.x; i < CHUNK; i += FEW_THREADS) {
            x[r][i] = k + i < call.k ? call.x[static_cast<size_t>(r) * call.k + k + i] : 0.0f;
        }
    }
}

/* One step of 16 bytes for every row: x is at its first input. */
template <typename Panel, unsigned ROWS>
static __device__ __forceinline__ void chain_vector(const float (*x)[CHUNK], unsigned first,
                                                    const float w[Panel::ELEMENTS],
                                                    float sum[ROWS]) {
    for (unsigned r = 0; r < ROWS; r++) {
        for (unsigned e = 0; e < Panel::ELEMENTS; e += 4u) {
            float four[4];
            tile_vector(&x[r][first + e], four);
            for (unsigned i = 0; i < 4u; i++) {
                sum[r] = fmaf(four[i], w[e + i], sum[r]);
            }
        }
    }
}

/* `count` inputs from input k on, which stand in x from its beginning. */
template <typename Panel, unsigned ROWS>
static __device__ __forceinline__ void chain_chunk(const f32_call &call, uint32_t n, uint32_t k,
                                                   uint32_t count, const float (*x)[CHUNK],
                                                   float sum[ROWS]) {
    uint32_t steps = weight_steps(call.k, Panel::ELEMENTS), step = k / Panel::ELEMENTS;
    uint32_t whole = count / Panel::ELEMENTS, left = count % Panel::ELEMENTS;
    float w[Panel::ELEMENTS];
    CUDA_UNROLL_BY(4)
    for (uint32_t i = 0; i < whole; i++) {
        panel_read<Panel>(call.values, n, step + i, steps, w);
        chain_vector<Panel, ROWS>(x, i * Panel::ELEMENTS, w, sum);
    }
    if (left > 0u) { /* only at K: what pads it must not enter the chain */
        panel_read<Panel>(call.values, n, step + whole, steps, w);
        for (unsigned e = 0; e < Panel::ELEMENTS; e++) {
            for (unsigned r = 0; r < ROWS && e < left; r++) {
                sum[r] = fmaf(x[r][whole * Panel::ELEMENTS + e], w[e], sum[r]);
            }
        }
    }
}

template <typename Panel, unsigned ROWS>
static __global__ void __launch_bounds__(FEW_THREADS) few_rows_f32(f32_call call) {
    struct alignas(16) staged {
        float at[ROWS][CHUNK];
    };
    CUDA_SHARED(staged, x, );
    uint32_t n = blockIdx.x * FEW_THREADS + threadIdx.x;
    bool has_panel = n / WEIGHT_PANEL * WEIGHT_PANEL < call.n;
    float sum[ROWS] = {};
    for (uint32_t k = 0; k < call.k; k += CHUNK) {
        stage_rows<ROWS>(call, k, x.at);
        __syncthreads();
        uint32_t left = call.k - k;
        if (has_panel) {
            chain_chunk<Panel, ROWS>(call, n, k, left < CHUNK ? left : CHUNK, x.at, sum);
        }
        __syncthreads();
    }
    for (unsigned r = 0; r < ROWS; r++) {
        if (n < call.n) {
            f32_store(call, r, n, sum[r]);
        }
    }
}

/* Inputs k .. k + TILE_STEPS - 1 of 64 outputs, in f32. Panels past N are not read. */
template <typename Panel>
static __device__ __forceinline__ void
load_weights(const f32_call &call, uint32_t first, uint32_t k,
             tile_operand<float, TILE_STEPS, TILE_OUTPUTS> &to) {
    const unsigned vectors = TILE_STEPS / Panel::ELEMENTS;
    uint32_t steps = weight_steps(call.k, Panel::ELEMENTS);
    for (unsigned i = threadIdx.x; i < TILE_OUTPUTS * vectors; i += TILE_THREADS) {
        unsigned output = i % TILE_OUTPUTS, vector = i / TILE_OUTPUTS;
        uint32_t n = first + output, step = k / Panel::ELEMENTS + vector;
        float w[Panel::ELEMENTS] = {};
        if (n / WEIGHT_PANEL * WEIGHT_PANEL < call.n && step < steps) {
            panel_read<Panel>(call.values, n, step, steps, w);
        }
        for (unsigned e = 0; e < Panel::ELEMENTS; e++) {
            to.at[vector * Panel::ELEMENTS + e][output] = w[e];
        }
    }
}

/* The same inputs of 16 * R rows: 8 inputs of 4 rows a warp, whole sectors and no bank twice. */
template <unsigned R>
static __device__ __forceinline__ void
load_rows(const f32_call &call, uint32_t first, uint32_t k,
          tile_operand<float, TILE_STEPS, TILE_SIDE * R> &to) {
    const unsigned rows = TILE_SIDE * R, inputs = 8;
    for (unsigned i = threadIdx.x; i < rows * TILE_STEPS; i += TILE_THREADS) {
        unsigned row = i / inputs % rows, step = i / (inputs * rows) * inputs + i % inputs;
        bool exists = first + row < call.rows && k + step < call.k;
        to.at[step][row] =
            exists ? call.x[static_cast<size_t>(first + row) * call.k + k + step] : 0.0f;
    }
}

template <typename Panel, unsigned R>
static __global__ void __launch_bounds__(TILE_THREADS) tiles_f32(f32_call call) {
    typedef tile_operand<float, TILE_STEPS, TILE_OUTPUTS> w_operand;
    typedef tile_operand<float, TILE_STEPS, TILE_SIDE * R> x_operand;
    CUDA_SHARED(w_operand, w, );
    CUDA_SHARED(x_operand, x, );
    float sum[R][TILE_OUTPUTS_EACH] = {};
    for (uint32_t k = 0; k < call.k; k += TILE_STEPS) {
        load_weights<Panel>(call, tile_first_output(), k, w);
        load_rows<R>(call, tile_first_row<R>(), k, x);
        __syncthreads();
        uint32_t left = call.k - k;
        tile_multiply<R>(w, x, left < TILE_STEPS ? left : TILE_STEPS, sum);
        __syncthreads();
    }
    tile_each<R>(call.rows, call.n, [&](uint32_t t, uint32_t n, unsigned r, unsigned o) {
        f32_store(call, t, n, sum[r][o]);
    });
}

/* ---------------------------------------------------------------- launchers */

typedef void f32_kernel(f32_call call);

template <typename Panel> static f32_kernel *few_rows_kernel(uint32_t rows) {
    switch (rows) {
    case 1: return few_rows_f32<Panel, 1>;
    case 2: return few_rows_f32<Panel, 2>;
    case 3: return few_rows_f32<Panel, 3>;
    case 4: return few_rows_f32<Panel, 4>;
    case 5: return few_rows_f32<Panel, 5>;
    case 6: return few_rows_f32<Panel, 6>;
    case 7: return few_rows_f32<Panel, 7>;
    default: return few_rows_f32<Panel, 8>;
    }
}

template <typename Panel> static f32_kernel *tiles_kernel(uint32_t rows_each) {
    switch (rows_each) {
    case 1: return tiles_f32<Panel, 1>;
    case 2: return tiles_f32<Panel, 2>;
    default: return tiles_f32<Panel, 4>;
    }
}

template <typename Panel> static void launch_f32(cudaStream_t stream, const f32_call &call) {
    if (call.rows <= WEIGHT_FEW_ROWS) {
        f32_kernel *kernel = few_rows_kernel<Panel>(call.rows);
        CUDA_LAUNCH(kernel, (call.n - 1u) / FEW_THREADS + 1u, FEW_THREADS, 0, stream, call);
        return;
    }
    uint32_t rows_each = tile_rows_each(call.rows);
    f32_kernel *kernel = tiles_kernel<Panel>(rows_each);
    CUDA_LAUNCH(kernel, tile_grid(call.rows, rows_each, call.n), TILE_THREADS, 0, stream, call);
}

size_t cuda_linear_f32_bytes(const struct kernels_shape *shape) {
    return shape->fast ? cuda_linear_fast_bytes(shape->n_max, shape->k_max) : 0;
}

enum kernels_status cuda_linear_f32(struct cuda_blas *blas, cudaStream_t stream,
                                    const struct linear_f32_args *args) {
    if (!check_linear_f32(args)) {
        return KERNELS_INVALID;
    }
    const struct weight_form *form = &args->weight->form;
    struct reference_weight_view view = cuda_weight_view(args->weight);
    struct f32_call call = {args->x, view.values, view.bias, args->residual,
                            args->y, args->rows,  form->n,   form->k};
    if (form->fast) {
        return cuda_linear_fast(blas, stream, args->weight, &call, &args->workspace);
    }
    if (form->type == ELEMENT_F16) {
        launch_f32<panel_f16>(stream, call);
    } else {
        launch_f32<panel_f32>(stream, call);
    }
    return cuda_launch_status();
}
