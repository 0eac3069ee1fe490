/* INT8 logits, the few that matter recomputed, the sampling that all share. */
#include "kernels/x86/avx2/shortcut.h"

#include "kernels/cpu_device.h"
#include "kernels/reference/check.h"
#include "kernels/reference/sample.h"
#include "kernels/x86/avx2/avx2.h"
#include "kernels/x86/avx2/head_panels.h"
#include "kernels/x86/avx2/shortcut_bounds.h"
#include "kernels/x86/avx2/weight.h"

#define SHORTCUT_ROWS 16u /* a slice: what is looked at together, so that memory is bounded */
#define SHORTCUT_TOP_K_MAX 256u
#define SHORTCUT_WHOLE_SHARE \
    8 /* with more than this part of the panels left, take the head whole */

/* A sampled row on its way. */
struct shortcut_row {
    struct avx2_shortcut_bound bound;
    bool is_taken;                 /* the shortcut is open to it */
    bool is_whole;                 /* is not, or too many logits may matter, or the bound is none */
    uint32_t *panels, panel_count; /* that hold a logit that may matter, ascending */
};

struct shortcut {
    struct device *device;
    const struct head_sample_args *args;
    const struct avx2_shortcut_tier *tier;
    uint32_t vocabulary, dim, panel_count, panels_max, stretch_count;
    float *low;   /* [rows, V]: the first product, then lower ends, then logits */
    float *high;  /* [rows, V] behind it: the second product, then upper ends */
    int8_t *q;    /* [2, rows, D]: first, then second roundings; 0 of rows that are not taken */
    float *scale; /* [2, rows] */
    float *most;  /* [rows, 2, stretches]: of lower, then of upper ends */
    struct kernels_workspace linear; /* of the two products */
    struct shortcut_row rows[SHORTCUT_ROWS];
};

/* ---------------------------------------------------------------- workspace */

static uint32_t shortcut_panels_max(uint32_t vocabulary) {
    return reference_panels(vocabulary) / SHORTCUT_WHOLE_SHARE + 1u;
}

static size_t shortcut_logits_bytes(uint32_t rows, uint32_t vocabulary) {
    return (size_t)rows * vocabulary * sizeof(float);
}

/* Gives the pieces of the workspace for a slice of `rows` rows; with base NULL only their bytes. */
static size_t shortcut_place(const struct avx2_shortcut_tier *tier, char *base, uint32_t rows,
                             uint32_t vocabulary, uint32_t dim, struct shortcut *shortcut) {
    const size_t bytes[] = {
        2 * shortcut_logits_bytes(rows, vocabulary),
        2 * rows * (size_t)dim,
        2 * rows * sizeof(float),
        2 * rows * (size_t)avx2_shortcut_stretches(vocabulary) * sizeof(float),
        rows * (size_t)shortcut_panels_max(vocabulary) * sizeof(uint32_t),
        tier->linear_i8_bytes != NULL ? tier->linear_i8_bytes(2 * rows, dim) : 0,
    };
    char *piece[sizeof bytes / sizeof bytes[0]];
    size_t used = 0;
    for (uint32_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        piece[i] = base != NULL ? base + used : NULL;
        used += kernels_aligned(bytes[i]);
    }
    if (base != NULL) {
        shortcut->low = (float *)(void *)piece[0];
        shortcut->high = shortcut->low + (size_t)rows * vocabulary;
        shortcut->q = (int8_t *)piece[1];
        shortcut->scale = (float *)(void *)piece[2];
        shortcut->most = (float *)(void *)piece[3];
        for (uint32_t s = 0; s < rows; s++) {
            shortcut->rows[s].panels =
                (uint32_t *)(void *)piece[4] + (size_t)s * shortcut_panels_max(vocabulary);
        }
        shortcut->linear = (struct kernels_workspace){piece[5], bytes[5]};
    }
    return used;
}

/* Of a slice; sampling comes last and takes the place of all but the logits. */
static size_t shortcut_bytes(const struct avx2_shortcut_tier *tier, uint32_t threads, uint32_t rows,
                             uint32_t vocabulary, uint32_t dim) {
    uint32_t slice = rows < SHORTCUT_ROWS ? rows : SHORTCUT_ROWS;
    size_t sample = kernels_aligned(shortcut_logits_bytes(slice, vocabulary)) +
                    reference_sample_bytes(threads, vocabulary);
    size_t scratch = shortcut_place(tier, NULL, slice, vocabulary, dim, NULL);
    return sample > scratch ? sample : scratch;
}

size_t avx2_shortcut_bytes(const struct avx2_shortcut_tier *tier, uint32_t threads,
                           const struct kernels_shape *shape) {
    size_t whole = reference_head_sample_bytes(threads, shape->sampled_max, shape->vocabulary);
    size_t slice = shortcut_bytes(tier, threads, shape->sampled_max, shape->vocabulary, shape->dim);
    return shape->head_sketch && slice > whole ? slice : whole;
}

/* ---------------------------------------------------------------- which logits can matter */

static void shortcut_round_tile(void *context, uint32_t tile, uint32_t worker) {
    struct shortcut *shortcut = context;
    uint32_t dim = shortcut->dim, rows = shortcut->args->rows;
    const float *x = shortcut->args->x + (size_t)tile * dim;
    float *rest = cpu_device_row(shortcut->device, worker), scale[2] = {0};
    int8_t *first = shortcut->q + (size_t)tile * dim, *second = first + (size_t)rows * dim;
    if (!shortcut->rows[tile].is_taken) {
        memset(first, 0, dim);
        memset(second, 0, dim);
    } else {
        shortcut->rows[tile].bound = avx2_shortcut_round(x, dim, rest, first, second, scale);
    }
    shortcut->scale[tile] = scale[0];
    shortcut->scale[rows + tile] = scale[1];
}

/* Panels of stretch `stretch` with an upper end that reaches `least`. False when there are more of
 * the row than are kept. */
static bool shortcut_collect_stretch(const struct shortcut *shortcut, uint32_t stretch,
                                     const float *high, float least, struct shortcut_row *row) {
    const uint32_t panels = AVX2_SHORTCUT_STRETCH / REFERENCE_PANEL;
    for (uint32_t p = stretch * panels; p < (stretch + 1) * panels && p < shortcut->panel_count;
         p++) {
        uint32_t begin = p * REFERENCE_PANEL, left = shortcut->vocabulary - begin;
        uint32_t width = left < REFERENCE_PANEL ? left : REFERENCE_PANEL;
        int32_t reaches = 0;
        for (uint32_t l = 0; l < width; l++) {
            reaches |= high[begin + l] >= least;
        }
        if (reaches != 0) {
            if (row->panel_count == shortcut->panels_max) {
                return false;
            }
            row->panels[row->panel_count++] = p;
        }
    }
    return true;
}

static bool shortcut_collect(const struct shortcut *shortcut, const struct avx2_shortcut_ends *ends,
                             float least, struct shortcut_row *row) {
    row->panel_count = 0;
    for (uint32_t i = 0; i < shortcut->stretch_count; i++) {
        if (ends->most_high[i] >= least &&
            !shortcut_collect_stretch(shortcut, i, ends->high, least, row)) {
            return false;
        }
    }
    return true;
}

/* How many of the first logits the draw looks at; 0: maybe all. */
static uint32_t shortcut_first(const struct sample_params *params, uint32_t s) {
    uint32_t top_k = params->top_k[s];
    return params->temperature[s] < 0.01f ? 1 : top_k <= SHORTCUT_TOP_K_MAX ? top_k : 0;
}

static bool shortcut_select(struct shortcut *shortcut, uint32_t s) {
    struct shortcut_row *row = &shortcut->rows[s];
    const struct sample_params *params = &shortcut->args->params;
    uint32_t vocabulary = shortcut->vocabulary, first = shortcut_first(params, s);
    float *most = shortcut->most + (size_t)s * 2 * shortcut->stretch_count;
    const struct avx2_shortcut_ends ends = {.low = shortcut->low + (size_t)s * vocabulary,
                                            .high = shortcut->high + (size_t)s * vocabulary,
                                            .most_low = most,
                                            .most_high = most + shortcut->stretch_count};
    if (first > shortcut->stretch_count ||
        !avx2_shortcut_bound_logits(shortcut->args->sketch, &row->bound, vocabulary, &ends)) {
        return false;
    }
    if (params->seen_begin[s] < params->seen_begin[s + 1]) {
        reference_sample_penalize(params, s, ends.low, vocabulary);
        reference_sample_penalize(params, s, ends.high, vocabulary);
        avx2_shortcut_find_most(vocabulary, &ends);
    }
    return shortcut_collect(shortcut, &ends, avx2_shortcut_least(vocabulary, first, &ends), row);
}

static void shortcut_select_tile(void *context, uint32_t tile, uint32_t worker) {
    (void)worker;
    struct shortcut *shortcut = context;
    struct shortcut_row *row = &shortcut->rows[tile];
    float *logits = shortcut->low + (size_t)tile * shortcut->vocabulary;
    row->is_whole = !row->is_taken || !shortcut_select(shortcut, tile);
    if (row->is_whole) {
        row->panel_count = 0;
        return;
    }
    for (uint32_t n = 0; n < shortcut->vocabulary; n++) {
        logits[n] = -canonical_float(CANONICAL_INF_BITS); /* has no weight, and is never first */
    }
}

/* ---------------------------------------------------------------- those logits, exactly */

/* Tiles are groups of panels, row after row. */
static void shortcut_exact_tile(void *context, uint32_t tile, uint32_t worker) {
    (void)worker;
    const struct shortcut *shortcut = context;
    for (uint32_t s = 0; s < shortcut->args->rows; s++) {
        const struct shortcut_row *row = &shortcut->rows[s];
        uint32_t tiles = (row->panel_count + AVX2_HEAD_PANELS - 1) / AVX2_HEAD_PANELS;
        if (tile < tiles) {
            uint32_t begin = tile * AVX2_HEAD_PANELS, left = row->panel_count - begin;
            avx2_head_panels(shortcut->args->weight, shortcut->args->x + (size_t)s * shortcut->dim,
                             row->panels + begin, left < AVX2_HEAD_PANELS ? left : AVX2_HEAD_PANELS,
                             shortcut->low + (size_t)s * shortcut->vocabulary);
            return;
        }
        tile -= tiles;
    }
}

/* ---------------------------------------------------------------- launchers */

/* All logits of rows begin .. end - 1. */
static enum kernels_status shortcut_whole(const struct shortcut *shortcut, uint32_t begin,
                                          uint32_t end) {
    if (begin == end) {
        return KERNELS_OK;
    }
    const struct head_logits_args head = {.x = shortcut->args->x + (size_t)begin * shortcut->dim,
                                          .weight = shortcut->args->weight,
                                          .logits =
                                              shortcut->low + (size_t)begin * shortcut->vocabulary,
                                          .rows = end - begin};
    return shortcut->tier->head_logits(shortcut->device, &head);
}

/* The logits that matter of the rows that are taken. */
static enum kernels_status shortcut_few(struct shortcut *shortcut) {
    struct pool *pool = cpu_device_pool(shortcut->device);
    uint32_t rows = shortcut->args->rows, tiles = 0;
    pool_run(pool, shortcut_round_tile, shortcut, rows);
    const struct linear_i8_args linear = {.x = {.q = shortcut->q, .scale = shortcut->scale},
                                          .weight = &shortcut->args->sketch->weight,
                                          .y = shortcut->low,
                                          .workspace = shortcut->linear,
                                          .rows = 2 * rows};
    enum kernels_status status = shortcut->tier->linear_i8(shortcut->device, &linear);
    if (status != KERNELS_OK) {
        return status;
    }
    pool_run(pool, shortcut_select_tile, shortcut, rows);
    for (uint32_t s = 0; s < rows; s++) {
        tiles += (shortcut->rows[s].panel_count + AVX2_HEAD_PANELS - 1) / AVX2_HEAD_PANELS;
    }
    if (tiles > 0) {
        pool_run(pool, shortcut_exact_tile, shortcut, tiles);
    }
    return KERNELS_OK;
}

static bool shortcut_takes(const struct shortcut *shortcut, uint32_t s) {
    const float *x = shortcut->args->x + (size_t)s * shortcut->dim;
    return shortcut_first(&shortcut->args->params, s) > 0 &&
           canonical_amax_bits(x, shortcut->dim) < CANONICAL_INF_BITS;
}

/* Rows that are not taken go the short way with the others, for nothing: only where few are. */
static enum kernels_status shortcut_logits(struct shortcut *shortcut) {
    enum kernels_status status = KERNELS_OK;
    uint32_t rows = shortcut->args->rows, taken = 0, begin = 0; /* rows since `begin` are whole */
    for (uint32_t s = 0; s < rows; s++) {
        shortcut->rows[s].is_taken = shortcut_takes(shortcut, s);
        shortcut->rows[s].is_whole = true;
        taken += shortcut->rows[s].is_taken;
    }
    if (taken > rows / 2) {
        status = shortcut_few(shortcut);
    }
    for (uint32_t s = 0; s < rows && status == KERNELS_OK; s++) {
        if (!shortcut->rows[s].is_whole) {
            status = shortcut_whole(shortcut, begin, s);
            begin = s + 1;
        }
    }
    return status == KERNELS_OK ? shortcut_whole(shortcut, begin, rows) : status;
}

static bool shortcut_sketch_fits(const struct head_sketch *sketch, const struct weight_form *head) {
    const struct weight_form *form = &sketch->weight.form;
    return check_weight_i8(&sketch->weight) && avx2_takes(form) && !form->bias &&
           form->n == head->n && form->k == head->k && check_words(sketch->norm) &&
           check_words(sketch->error);
}

/* Rows from `s` on: of arrays with an entry a row; the CSR arrays are read at absolute places. */
static struct sample_params shortcut_params_from(const struct sample_params *all, uint32_t s) {
    return (struct sample_params){.temperature = all->temperature + s,
                                  .top_k = all->top_k + s,
                                  .top_p_q16 = all->top_p_q16 + s,
                                  .min_p_q16 = all->min_p_q16 + s,
                                  .repetition = all->repetition + s,
                                  .presence = all->presence + s,
                                  .frequency = all->frequency + s,
                                  .seed = all->seed + s,
                                  .position = all->position + s,
                                  .seen_begin = all->seen_begin + s,
                                  .seen_id = all->seen_id,
                                  .seen_count = all->seen_count};
}

/* At most SHORTCUT_ROWS rows. */
static enum kernels_status shortcut_slice(struct device *device,
                                          const struct head_sample_args *args,
                                          const struct avx2_shortcut_tier *tier) {
    const struct weight_form *form = &args->weight->form;
    struct shortcut shortcut = {.device = device,
                                .args = args,
                                .tier = tier,
                                .vocabulary = form->n,
                                .dim = form->k,
                                .panel_count = reference_panels(form->n),
                                .panels_max = shortcut_panels_max(form->n),
                                .stretch_count = avx2_shortcut_stretches(form->n)};
    (void)shortcut_place(tier, args->workspace.data, args->rows, form->n, form->k, &shortcut);
    enum kernels_status status = shortcut_logits(&shortcut);
    if (status != KERNELS_OK) {
        return status;
    }
    size_t logits_bytes = kernels_aligned(shortcut_logits_bytes(args->rows, form->n));
    const struct sample_args sample = {.logits = shortcut.low,
                                       .vocabulary = form->n,
                                       .params = args->params,
                                       .token = args->token,
                                       .bad = args->bad,
                                       .workspace = {(char *)args->workspace.data + logits_bytes,
                                                     args->workspace.bytes - logits_bytes},
                                       .rows = args->rows};
    return reference_sample(device, &sample);
}

enum kernels_status avx2_shortcut_sample(struct device *device, const struct head_sample_args *args,
                                         const struct avx2_shortcut_tier *tier) {
    if (args->sketch == NULL || args->rows > tier->rows_max || args->weight == NULL ||
        args->weight->form.bias) {
        return reference_head_sample_by(device, args, tier->head_logits);
    }
    if (args->rows < 1 || !check_weight_f32(args->weight) || !check_words(args->x) ||
        !shortcut_sketch_fits(args->sketch, &args->weight->form) ||
        !check_sample_params(&args->params) || !check_words(args->token) || args->bad == NULL) {
        return KERNELS_INVALID;
    }
    const struct weight_form *form = &args->weight->form;
    size_t bytes =
        shortcut_bytes(tier, pool_threads(cpu_device_pool(device)), args->rows, form->n, form->k);
    if (!check_workspace(&args->workspace, bytes)) {
        return KERNELS_INVALID;
    }
    enum kernels_status status = KERNELS_OK;
    for (uint32_t s = 0; s < args->rows && status == KERNELS_OK; s += SHORTCUT_ROWS) {
        struct head_sample_args slice = *args;
        slice.x += (size_t)s * form->k;
        slice.token += s;
        slice.bad += s;
        slice.params = shortcut_params_from(&args->params, s);
        slice.rows = args->rows - s < SHORTCUT_ROWS ? args->rows - s : SHORTCUT_ROWS;
        status = shortcut_slice(device, &slice, tier);
    }
    return status;
}
