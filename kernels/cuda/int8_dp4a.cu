/* The INT8 product by __dp4a, on every card and for every shape.
 *
 * Few rows (1 to 8, one group). Parallelisation: a warp for 1, 2 or 4 outputs of all rows; a lane
 * takes 16 bytes of k in 512, so the warp reads weights in whole lines; shuffles add the lanes.
 * Bytes moved: w once from memory, x once a warp from cache. Bound expected: memory.
 * Tiles (more rows, or groups; what cuBLASLt refuses). Parallelisation: tile.h, 64 bytes of k at a
 * time through shared memory, groups one after the other. Bytes moved: w once for each 64 rows, x
 * once for each 64 outputs, mostly from cache. Bound expected: __dp4a, a quarter of the integer
 * rate of tensor cores at best. Neither is measured on a card. */
#include "kernels/cuda/int8.h"
#include "kernels/cuda/row.h"
#include "kernels/cuda/tile.h"

#define VECTOR_BYTES WEIGHT_VECTOR_BYTES

#define FEW_THREADS 128u
#define FEW_WARPS (FEW_THREADS / WARP_THREADS)

#define STEP_BYTES 4u /* INT8 values of a word */
#define TILE_STEPS 16u
#define TILE_BYTES (TILE_STEPS * STEP_BYTES)

/* ---------------------------------------------------------------- kernels: few rows */

static __device__ __forceinline__ int4 vector_at(const void *values, size_t byte) {
    return *reinterpret_cast<const int4 *>(static_cast<const int8_t *>(values) + byte);
}

static __device__ __forceinline__ int dot_vector(int4 x, int4 w, int sum) {
    sum = __dp4a(x.x, w.x, sum);
    sum = __dp4a(x.y, w.y, sum);
    sum = __dp4a(x.z, w.z, sum);
    return __dp4a(x.w, w.w, sum);
}

/* What this lane sees of the sums of outputs first, first + 1, ... of all rows. */
template <unsigned ROWS, unsigned OUTPUTS>
static __device__ __forceinline__ void few_rows_lane(const int8_call &call, uint32_t first,
                                                     int sum[ROWS][OUTPUTS]) {
    uint32_t k_bytes = weight_padded(call.form.k);
    CUDA_UNROLL_BY(2)
    for (uint32_t k = threadIdx.x % WARP_THREADS * VECTOR_BYTES; k < k_bytes;
         k += WARP_THREADS * VECTOR_BYTES) {
        int4 w[OUTPUTS];
        for (unsigned o = 0; o < OUTPUTS; o++) {
            w[o] = vector_at(call.weight.values, static_cast<size_t>(first + o) * k_bytes + k);
        }
        for (unsigned r = 0; r < ROWS; r++) {
            int4 x = vector_at(call.x.q, static_cast<size_t>(r) * k_bytes + k);
            for (unsigned o = 0; o < OUTPUTS; o++) {
                sum[r][o] = dot_vector(x, w[o], sum[r][o]);
            }
        }
    }
}

/* Outputs are padded to 16 in memory, which OUTPUTS divides: none of a warp lies outside. */
template <unsigned ROWS, unsigned OUTPUTS>
static __global__ void __launch_bounds__(FEW_THREADS) few_rows_i8(int8_call call) {
    uint32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    uint32_t first = (blockIdx.x * FEW_WARPS + warp) * OUTPUTS;
    if (first >= call.form.n) {
        return;
    }
    int sum[ROWS][OUTPUTS] = {};
    few_rows_lane<ROWS, OUTPUTS>(call, first, sum);
    int mine = 0;
    for (unsigned r = 0; r < ROWS; r++) {
        for (unsigned o = 0; o < OUTPUTS; o++) {
            for (uint32_t distance = WARP_THREADS / 2u; distance > 0u; distance /= 2u) {
                sum[r][o] += __shfl_xor_sync(FULL_MASK, sum[r][o], distance);
            }
            mine = lane == r * OUTPUTS + o ? sum[r][o] : mine;
        }
    }
    uint32_t n = first + lane % OUTPUTS;
    if (lane < ROWS * OUTPUTS && n < call.form.n) {
        int8_store(call, lane / OUTPUTS, n, mine);
    }
}

/* ---------------------------------------------------------------- kernels: tiles */

/* Rows first .. of an operand, bytes begin .. of k, into shared memory word by word; what lies past
 * `rows` or `end` is 0. */
template <unsigned WIDTH>
static __device__ __forceinline__ void
tile_load_i8(const void *values, uint32_t first, uint32_t rows, uint32_t k_bytes, uint32_t begin,
             uint32_t end, tile_operand<int, TILE_STEPS, WIDTH> &to) {
    const unsigned vectors = TILE_BYTES / VECTOR_BYTES;
    for (unsigned i = threadIdx.x; i < WIDTH * vectors; i += TILE_THREADS) {
        unsigned row = i / vectors, step = i % vectors * (VECTOR_BYTES / STEP_BYTES);
        uint32_t k = begin + step * STEP_BYTES;
        int4 v = make_int4(0, 0, 0, 0);
        if (first + row < rows && k < end) {
            v = vector_at(values, static_cast<size_t>(first + row) * k_bytes + k);
        }
        to.at[step][row] = v.x;
        to.at[step + 1u][row] = v.y;
        to.at[step + 2u][row] = v.z;
        to.at[step + 3u][row] = v.w;
    }
}

/* Sums of this thread over bytes begin .. end - 1 of k, both multiples of 16. */
template <unsigned R>
static __device__ __forceinline__ void tile_range(const int8_call &call, uint32_t begin,
                                                  uint32_t end, int sum[R][TILE_OUTPUTS_EACH]) {
    typedef tile_operand<int, TILE_STEPS, TILE_OUTPUTS> w_operand;
    typedef tile_operand<int, TILE_STEPS, TILE_SIDE * R> x_operand;
    CUDA_SHARED(w_operand, w, );
    CUDA_SHARED(x_operand, x, );
    uint32_t k_bytes = weight_padded(call.form.k);
    for (uint32_t k = begin; k < end; k += TILE_BYTES) {
        tile_load_i8<TILE_OUTPUTS>(call.weight.values, tile_first_output(), call.form.n, k_bytes, k,
                                   end, w);
        tile_load_i8<TILE_SIDE * R>(call.x.q, tile_first_row<R>(), call.rows, k_bytes, k, end, x);
        __syncthreads();
        uint32_t steps = (end - k) / STEP_BYTES;
        tile_multiply<R>(w, x, steps < TILE_STEPS ? steps : TILE_STEPS, sum);
        __syncthreads();
    }
}

template <unsigned R>
static __global__ void __launch_bounds__(TILE_THREADS, 2) tiles_i8(int8_call call) {
    int sum[R][TILE_OUTPUTS_EACH] = {};
    tile_range<R>(call, 0, weight_padded(call.form.k), sum);
    tile_each<R>(call.rows, call.form.n, [&](uint32_t t, uint32_t n, unsigned r, unsigned o) {
        int8_store(call, t, n, sum[r][o]);
    });
}

/* Sums of a group: as they are, or into y. */
template <unsigned R>
static __device__ __forceinline__ void add_group(const int8_call &call, uint32_t g,
                                                 const int sum[R][TILE_OUTPUTS_EACH],
                                                 float y[R][TILE_OUTPUTS_EACH]) {
    uint32_t groups = call.weight.groups;
    tile_each<R>(call.rows, call.form.n, [&](uint32_t t, uint32_t n, unsigned r, unsigned o) {
        if (call.sum != NULL) {
            call.sum[(static_cast<size_t>(t) * call.form.n + n) * groups + g] = sum[r][o];
        } else {
            y[r][o] =
                int8_add_group(&call.form, &call.weight, &call.x, t, n, g, sum[r][o], y[r][o]);
        }
    });
}

template <unsigned R>
static __global__ void __launch_bounds__(TILE_THREADS, 2) tiles_i8_groups(int8_call call) {
    uint32_t size = call.form.group_size, groups = call.weight.groups;
    float y[R][TILE_OUTPUTS_EACH] = {};
    tile_each<R>(call.rows, call.form.n, [&](uint32_t, uint32_t n, unsigned r, unsigned o) {
        y[r][o] = int8_begin(&call.weight, n);
    });
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t begin = g * size;
        int sum[R][TILE_OUTPUTS_EACH] = {};
        tile_range<R>(call, begin, g + 1u < groups ? begin + size : weight_padded(call.form.k),
                      sum);
        add_group<R>(call, g, sum, y);
    }
    if (call.sum == NULL) {
        tile_each<R>(call.rows, call.form.n, [&](uint32_t t, uint32_t n, unsigned r, unsigned o) {
            int8_store_y(call, static_cast<size_t>(t) * call.form.n + n, y[r][o]);
        });
    }
}

/* ---------------------------------------------------------------- launchers */

typedef void int8_kernel(int8_call call);

/* More rows share a load of w, more outputs one of x: what each of them costs stays even. */
static int8_kernel *few_rows_kernel(uint32_t rows, uint32_t *outputs) {
    *outputs = rows == 1u ? 1u : rows <= 3u ? 2u : 4u;
    switch (rows) {
    case 1: return few_rows_i8<1, 1>;
    case 2: return few_rows_i8<2, 2>;
    case 3: return few_rows_i8<3, 2>;
    case 4: return few_rows_i8<4, 4>;
    case 5: return few_rows_i8<5, 4>;
    case 6: return few_rows_i8<6, 4>;
    case 7: return few_rows_i8<7, 4>;
    default: return few_rows_i8<8, 4>;
    }
}

static int8_kernel *tiles_kernel(uint32_t rows_each, bool has_groups) {
    switch (rows_each) {
    case 1: return has_groups ? tiles_i8_groups<1> : tiles_i8<1>;
    case 2: return has_groups ? tiles_i8_groups<2> : tiles_i8<2>;
    default: return has_groups ? tiles_i8_groups<4> : tiles_i8<4>;
    }
}

enum kernels_status cuda_int8_dp4a(cudaStream_t stream, const struct int8_call *call) {
    if (call->rows <= WEIGHT_FEW_ROWS && call->weight.groups == 1u) {
        uint32_t outputs = 0;
        int8_kernel *kernel = few_rows_kernel(call->rows, &outputs);
        uint32_t blocks = (call->form.n - 1u) / (FEW_WARPS * outputs) + 1u;
        CUDA_LAUNCH(kernel, blocks, FEW_THREADS, 0, stream, *call);
    } else {
        uint32_t rows_each = tile_rows_each(call->rows);
        int8_kernel *kernel = tiles_kernel(rows_each, call->weight.groups != 1u);
        CUDA_LAUNCH(kernel, tile_grid(call->rows, rows_each, call->form.n), TILE_THREADS, 0, stream,
                    *call);
    }
    return cuda_launch_status();
}
