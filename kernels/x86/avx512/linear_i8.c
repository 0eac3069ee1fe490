/* The INT8 product with its epilogue in registers. */
#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/x86/avx512/avx512.h"
#include "kernels/x86/avx512/int8.h"
#include "kernels/x86/avx512/mask.h"

/* ---------------------------------------------------------------- kernels */

/* From so many rows on a tile is worth dividing: few tiles are then shared evenly, too. */
#define LINEAR_I8_PARTED_ROWS 24u

struct linear_i8_job {
    const struct linear_i8_args *args;
    struct reference_weight_view view;
    uint32_t others; /* threads beside one */
    uint32_t parts;  /* of a tile's rows, for as many threads */
};

/* A group of rows, in nearly equal blocks, so that none is left with one. */
struct linear_i8_rows {
    uint32_t first, count, blocks;
    int32_t start[AVX512_I8_BLOCK];
};

/* The outputs of panel `panel` that exist, of row t: sums to floats as canonical_dequantize. */
static inline void linear_i8_store(const struct linear_i8_job *job, uint32_t panel, uint32_t t,
                                   __m512i sum) {
    const struct linear_i8_args *args = job->args;
    uint32_t n = panel * REFERENCE_PANEL, n_count = args->weight->form.n;
    size_t at = (size_t)t * n_count + n;
    __mmask16 exist = avx512_first_lanes(n_count - n);
    __m512 value = _mm512_cvtepi32_ps(sum);
    __m512 scale =
        _mm512_mul_ps(_mm512_set1_ps(args->x.scale[t]), _mm512_load_ps(job->view.scale + n));
    __m512 y = job->view.bias != NULL
                   ? _mm512_fmadd_ps(value, scale, _mm512_load_ps(job->view.bias + n))
                   : _mm512_mul_ps(value, scale);
    if (args->residual != NULL) {
        y = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, args->residual + at), y);
    }
    _mm512_mask_storeu_ps(args->y + at, exist, y);
}

/* Rows t .. t + rows - 1 over `panels` panels of tile `tile`, from its panel `first` on. */
static inline __attribute__((always_inline)) void
linear_i8_tile(const struct linear_i8_job *job, uint32_t tile, uint32_t first, uint32_t t,
               const int32_t *start, struct avx512_i8_ahead ahead, const uint32_t rows,
               const uint32_t panels) {
    const struct linear_i8_args *args = job->args;
    uint32_t n = args->weight->form.n, k = args->weight->form.k;
    /* A whole tile's step is a constant, as panels is. */
    size_t step_bytes =
        AVX512_PANEL_STEP_BYTES *
        (panels == AVX512_I8_PANELS ? AVX512_I8_PANELS : avx512_tile_panels(n, tile));
    const uint8_t *values = (const uint8_t *)job->view.values + avx512_tile_offset(k, tile) +
                            (size_t)first * AVX512_PANEL_STEP_BYTES;
    __m512i sum[AVX512_I8_ROWS][AVX512_I8_PANELS];
    avx512_i8_tile(values, step_bytes, k, args->x.q + (size_t)t * k, start, ahead, rows, panels,
                   sum);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t p = 0; p < panels; p++) {
            linear_i8_store(job, tile * AVX512_I8_PANELS + first + p, t + r, sum[r][p]);
        }
    }
}

/* Instances by the number of rows. */
static inline __attribute__((always_inline)) void
linear_i8_few(const struct linear_i8_job *job, uint32_t tile, uint32_t first, uint32_t t,
              const int32_t *start, struct avx512_i8_ahead ahead, uint32_t rows,
              const uint32_t panels) {
    switch (rows) {
    case 1: linear_i8_tile(job, tile, first, t, start, ahead, 1, panels); break;
    case 2: linear_i8_tile(job, tile, first, t, start, ahead, 2, panels); break;
    case 3: linear_i8_tile(job, tile, first, t, start, ahead, 3, panels); break;
    case 4: linear_i8_tile(job, tile, first, t, start, ahead, 4, panels); break;
    case 5: linear_i8_tile(job, tile, first, t, start, ahead, 5, panels); break;
    default: linear_i8_tile(job, tile, first, t, start, ahead, AVX512_I8_ROWS, panels); break;
    }
}

/* ---------------------------------------------------------------- launchers */

/* What is fetched beside block `block` of the `blocks` of rows that a thread has of a tile: a share
 * of tile `next`, so that memory does not idle while the blocks after the first find theirs in the
 * cache. A single block reads as fast as memory serves. */
static struct avx512_i8_ahead linear_i8_ahead(const struct linear_i8_job *job, uint32_t next,
                                              uint32_t block, uint32_t blocks) {
    const struct weight_form *form = &job->args->weight->form;
    uint32_t shares = blocks < 4 ? 2 : 4; /* a step has four lines */
    if (blocks == 1 || block >= shares || next >= avx512_tiles(form->n)) {
        return (struct avx512_i8_ahead){(const char *)job->args->x.q, 0, 0};
    }
    size_t share_bytes = AVX512_I8_PANELS * avx512_panel_bytes(form->k) / shares;
    return (struct avx512_i8_ahead){
        .at = (const char *)job->view.values + avx512_tile_offset(form->k, next) +
              block * share_bytes,
        .second_bytes = shares == 2 ? 64 : 0,
        .step_bytes = shares == 2 ? 128 : 64,
    };
}

/* Blocks `block` .. block_end - 1 of the rows over a tile. */
static void linear_i8_blocks(const struct linear_i8_job *job, const struct linear_i8_rows *rows,
                             uint32_t tile, uint32_t next, uint32_t block, uint32_t block_end) {
    uint32_t panels = avx512_tile_panels(job->args->weight->form.n, tile);
    uint32_t least = rows->count / rows->blocks, more = rows->count % rows->blocks;
    for (uint32_t b = block; b < block_end; b++) {
        uint32_t r = b * least + (b < more ? b : more), count = least + (b < more);
        const struct avx512_i8_ahead ahead =
            linear_i8_ahead(job, next, b - block, block_end - block);
        if (panels == AVX512_I8_PANELS) {
            linear_i8_few(job, tile, 0, rows->first + r, rows->start + r, ahead, count,
                          AVX512_I8_PANELS);
        } else {
            for (uint32_t p = 0; p < panels; p++) {
                linear_i8_few(job, tile, p, rows->first + r, rows->start + r, ahead, count, 1);
            }
        }
    }
}

/* Items begin .. end - 1 for a group of rows. After the last tile of a range comes the first of the
 * range that this thread will claim if all are equally fast. */
static void linear_i8_group(const struct linear_i8_job *job, uint32_t begin, uint32_t end,
                            uint32_t first, uint32_t count) {
    struct linear_i8_rows rows = {first, count, (count - 1) / AVX512_I8_ROWS + 1, {0}};
    uint32_t k = job->args->weight->form.k, parts = job->parts, item = begin;
    for (uint32_t r = 0; r < count; r++) {
        rows.start[r] = avx512_i8_start(job->args->x.q + (size_t)(first + r) * k, k);
    }
    while (item < end) {
        uint32_t tile = item / parts, left = (tile + 1) * parts - item;
        uint32_t item_end = left < end - item ? item + left : end;
        uint32_t next = item_end < end ? item_end : end + job->others * (end - begin);
        linear_i8_blocks(job, &rows, tile, next / parts, rows.blocks * (item % parts) / parts,
                         rows.blocks * (item_end - tile * parts) / parts);
        item = item_end;
    }
}

/* Item: so many parts of the blocks of rows for one tile. */
static void linear_i8_range(void *context, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const struct linear_i8_job *job = context;
    uint32_t rows = job->args->rows;
    for (uint32_t t = 0; t < rows; t += AVX512_I8_BLOCK) {
        uint32_t left = rows - t;
        linear_i8_group(job, begin, end, t, left < AVX512_I8_BLOCK ? left : AVX512_I8_BLOCK);
    }
}

enum kernels_status avx512_linear_i8(struct device *device, const struct linear_i8_args *args) {
    if (!check_linear_i8(args)) {
        return KERNELS_INVALID;
    }
    const struct weight_form *form = &args->weight->form;
    if (!avx2_takes(form)) {
        return reference_linear_i8(device, args);
    }
    struct linear_i8_job job = {
        args, reference_weight_view_of(args->weight, avx512_weight_values_bytes(form)),
        pool_threads(cpu_device_pool(device)) - 1, args->rows < LINEAR_I8_PARTED_ROWS ? 1 : 2};
    /* A tile is 64 K bytes from memory, at some 30 a nanosecond, and 64 K products a row. */
    uint64_t cost = (uint64_t)form->k * 2u + (uint64_t)args->rows * form->k / 3u;
    pool_run_ranges(cpu_device_pool(device), linear_i8_range, &job,
                    avx512_tiles(form->n) * job.parts, cost / job.parts);
    return KERNELS_OK;
}
