/* The table of kernels: every op that the engine needs of a device, its contract stated once.
 *
 * Every op reads and writes device memory, is launched on the compute stream of its device and
 * returns only KERNELS_OK, or KERNELS_INVALID / KERNELS_UNSUPPORTED / KERNELS_FAILED for its
 * arguments or launch; nothing has been launched unless it is KERNELS_OK. Later faults come through
 * device_sync. Host scalars of an op depend only on (row bucket, context bucket, model): everything
 * else is read through addresses that stay fixed while the engine is open, so a captured graph can
 * be launched again. Rows past the real ones (padding up to a row bucket) carry token 0,
 * position 0 and a slot whose page table names a scratch page.
 *
 * Counts and widths are at least 1 (no op is called for 0 rows), arrays are aligned to their
 * elements, packed weights, pages and workspaces to KERNELS_ALIGNMENT_BYTES; else KERNELS_INVALID.
 *
 * The arithmetic is that of kernels/canonical.h on every back end: for each op below the tolerance
 * against `reference` is exact (memcmp), where a NaN equals any NaN; products of a weight that is
 * `fast` are the one exception (linear_f32). Arguments may not alias unless said. `bad` is u8 per
 * row and is OR-ed, never cleared here: 1 marks a row that held a NaN or an infinity; such a row's
 * outputs are unspecified but finite-time, and no other row changes.
 *
 * An op that a back end lacks is a NULL in its table; a form that it lacks is refused by
 * weight_packed_bytes. Both are refused when a model is loaded, by name (kernel_ops_require).
 * Compiles as C11 and C++17. */
#ifndef SOLFLEET_KERNELS_OPS_H
#define SOLFLEET_KERNELS_OPS_H

#include "kernels/device.h"
#include "kernels/view.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KERNELS_K_MAX 65536u        /* keeps every INT32 sum of INT8 products from overflowing */
#define KV_PAGE_TOKENS 16u          /* tokens of a KV page */
#define ATTENTION_BLOCK_TOKENS 256u /* canonical attention block */

/* ---------------------------------------------------------------- weights */

enum activation_kind {
    ACTIVATION_F32,       /* f32 rows: weights are F32 or F16 */
    ACTIVATION_PER_TOKEN, /* INT8 rows, each with its own scale */
    ACTIVATION_STATIC     /* INT8 rows, one scale for all, known at load */
};

/* What a linear's weight is. Compared by value; part of the key of a packed-weight cache. */
struct weight_form {
    enum element_type type; /* ELEMENT_I8 with an INT8 activation, else F16 or F32 */
    uint32_t n, k;          /* outputs, inputs; 1 <= k <= KERNELS_K_MAX */
    uint32_t group_size;    /* INT8: inputs that share a scale; 0 = the whole row */
    enum activation_kind activation;
    bool weight_zero_point;     /* INT8: weights are asymmetric */
    bool activation_zero_point; /* INT8: activations are asymmetric */
    bool bias;
    /* F16 only: the product is a library's, in 16 bits and in an order of its own, outside the
     * canonical arithmetic (see linear_f32). A weight of its own packing; not on the CPU. */
    bool fast;
    /* Every back end may refuse: weight zero points together with groups; zero points with
     * K > 32768 (INT32 could overflow); fast. */
};

/* A weight as it stands in the host's memory before packing; everything borrowed for the call. */
struct weight_source {
    const void *values;            /* [N, K] of form.type; INT8 may hold -128 */
    const float *scale;            /* [N, Q], Q = 1 or ceil(K / group_size); INT8 only */
    const int32_t *zero_point;     /* [N, Q]; NULL unless form.weight_zero_point */
    const float *bias;             /* [N]; NULL unless form.bias */
    float activation_scale;        /* ACTIVATION_STATIC only */
    int32_t activation_zero_point; /* ACTIVATION_STATIC with activation_zero_point only */
};

/* A weight on a device. `packed` is opaque device memory (values, scales, zero points, row sums and
 * bias in the back end's own order), owned by whoever allocated it; `plan` belongs to the back end
 * between weight_prepare and weight_release. */
struct weight {
    struct weight_form form;
    void *packed;
    void *plan;
};

/* INT8 rows with what is needed to read them back: x ~ (q - zero_point) * scale. Device memory. */
struct quantized {
    int8_t *q;           /* i8  [T, K] */
    float *scale;        /* f32 [T] */
    int32_t *zero_point; /* i32 [T]; NULL = symmetric */
    int32_t *sum;        /* i32 [T], sum of q over the row; NULL unless weights have zero points */
};

struct kernels_workspace {
    void *data; /* device memory, contents undefined before and after */
    size_t bytes;
};

/* ---------------------------------------------------------------- row ops */

/* Looks up embedding rows.  y[t] = table[token[t]], converted to f32.
 *   in   token  i32 [T]      0 <= token < N of the table
 *   out  x      f32 [T, K of the table] */
struct embed_args {
    const int32_t *token;
    const struct weight *table; /* F16 or F32, [V, D] */
    float *x;
    uint32_t rows;
};

/* Normalises rows (RMSNorm: Zhang & Sennrich 2019; LayerNorm: Ba et al. 2016).
 *   in   x          f32 [*, D]
 *   in   row_index  i32 [T]   row of x that row t reads; NULL = t
 *   in   weight     f32 [D]
 *   in   bias       f32 [D]   LayerNorm only, NULL = none
 *   out  y          f32 [T, D]
 * RMS: ss = sum fmaf(x, x, lane); r = 1/sqrtf(ss/D + eps); y = (x*r)*w.  Layer: mean = sum/D;
 * c = x - mean; ss of c likewise; y = (c*r)*w, then + bias. */
struct norm_args {
    const float *x;
    const int32_t *row_index;
    const float *weight;
    const float *bias;
    float *y; /* unused by the fused form */
    float eps;
    uint32_t rows;
    uint32_t dim;
};

/* Quantises each row to INT8.
 *   in   x      f32 [T, D]
 *   out  out.q, out.scale (and zero_point, sum where not NULL)
 *   or   bad    u8 [T]   1 if the row holds a NaN or an infinity: q = 0, scale = 0
 * Symmetric per token: scale = amax/127; q = rint(x * (127/amax)), half to even, in [-127, 127];
 * amax < 2^-100 gives q = 0, scale = 0.  static_scale (f32 [1], device) not NULL: that scale and
 * static_zero_point (i32 [1], NULL = 0) for every row, q = clamp(rint(x/scale) + zp, -128, 127).
 * Asymmetric per token (out.zero_point without static_scale): lo = min(0, row), hi = max(0, row),
 * scale = (hi - lo)/255, zp = rint(-128 - lo/scale), q = clamp(rint(x/scale) + zp, -128, 127);
 * hi - lo < 2^-100 gives q = 0, scale = 0, zp = 0; an infinite hi - lo is bad. A static scale gives
 * every row that is not bad that scale, and with static_zero_point out.zero_point is needed,
 * too. */
struct quantize_args {
    const float *x; /* unused by the fused forms */
    struct quantized out;
    const float *static_scale;
    const int32_t *static_zero_point;
    uint8_t *bad;
    uint32_t rows;
    uint32_t dim;
};

/* rms_norm, then quantize, without y in memory; equals the two. */
struct norm_quantize_args {
    struct norm_args norm;
    struct quantize_args quantize; /* its x, rows and dim are ignored */
};

/* Gated activations over the fused gate-and-up output.
 *   in   gate_up  f32 [T, 2F]   gate in columns 0..F-1, up in F..2F-1
 *   out  y        f32 [T, F]    (g / (1 + exp(-g))) * u */
struct glu_args {
    const float *gate_up;
    float *y; /* unused by the fused form */
    uint32_t rows;
    uint32_t dim; /* F */
};

struct glu_quantize_args {
    struct glu_args glu;
    struct quantize_args quantize; /* its x, rows and dim are ignored */
};

/* GELU (Hendrycks & Gimpel 2016) over rows, tanh form: no gate.  in x f32 [T, F], out y f32 [T, F];
 * x and y may be the same array.  y = x / (1 + exp(-z)), z = x * fmaf(c1, x*x, c0), the constants
 * in canonical.h. */
struct activation_args {
    const float *x;
    float *y;
    uint32_t rows;
    uint32_t dim;
};

/* x[t] = x[t] + y[t].  inout x f32 [T, D], in y f32 [T, D]. */
struct add_args {
    float *x;
    const float *y;
    uint32_t rows;
    uint32_t dim;
};

/* ---------------------------------------------------------------- linears */

/* INT8 matrix product, exact.
 *   in   x    quantized [T, K]
 *   in   w    INT8 weight [N, K]
 *   out  sum  i32 [T, N, Q]   sum over the group's k of q * w, no zero points, no scales */
struct gemm_i8_args {
    struct quantized x;
    const struct weight *weight;
    int32_t *sum;
    struct kernels_workspace workspace;
    uint32_t rows;
};

/* Epilogue of the INT8 product.  Per output: v = sum, minus zero-point terms in exact INT32
 * arithmetic (sum - zx*rowsum(w) - zw*sum(q) + k*zx*zw, over the group);  one group:
 * y = fmaf((float)v, sx*sw, bias), without bias (float)v * (sx*sw);  several groups:
 * acc = fmaf((float)v_g, sx*sw_g, acc) ascending from bias or +0.  Then residual + y if given.
 *   in   sum       i32 [T, N, Q]
 *   in   residual  f32 [T, N]   NULL = none; may be y itself
 *   out  y         f32 [T, N] */
struct dequantize_args {
    const int32_t *sum;
    struct quantized x; /* scale, zero_point, sum are read */
    const struct weight *weight;
    const float *residual;
    float *y;
    uint32_t rows;
};

/* gemm_i8 and dequantize in one, without sum in memory; equals the two. */
struct linear_i8_args {
    struct quantized x;
    const struct weight *weight;
    const float *residual; /* NULL = none; may be y itself */
    float *y;
    struct kernels_workspace workspace;
    uint32_t rows;
};

/* f32 rows times an F16 or F32 weight: one FMA chain per output over ascending k from +0, then
 * + bias, then residual + y.
 *   in   x         f32 [T, K]
 *   in   residual  f32 [T, N]   NULL = none; may be y itself
 *   out  y         f32 [T, N]
 * A weight that is `fast`: x is rounded to F16, half to even, and the exact products are summed in
 * f32 in a library's order, which is the same for every row and every T, by shape, card model and
 * library version. Tolerance: sum |x - f16(x)| |w| + K * 2^-22 * sum |f16(x) w|. An x of 65520 or
 * more becomes infinite, and so every output of its row infinite or NaN: the choice of a token
 * finds it, and so does the next quantisation. */
struct linear_f32_args {
    const float *x;
    const struct weight *weight;
    const float *residual;
    float *y;
    struct kernels_workspace workspace;
    uint32_t rows;
};

/* ---------------------------------------------------------------- attention */

/* What a KV page stores; part of the key of a shared page. */
struct kv_form {
    enum element_type type; /* F16 or F32 */
    uint32_t kv_heads, head_dim;
};

/* The pages of one layer and how rows find theirs. The layout inside a page belongs to the back
 * end; page p of this layer starts at (char *)base + p * stride_bytes. */
struct kv_view {
    struct kv_form form;
    void *base;
    size_t stride_bytes; /* >= page_bytes(form), multiple of KERNELS_ALIGNMENT_BYTES */
    const int32_t
        *page_table; /* i32 [slots, table_pages]: page of a slot's positions 16p..16p+15 */
    uint32_t table_pages;
};

/* Rows of a step. Rows of one slot are contiguous, in ascending consecutive positions, and form one
 * segment: segment s is rows segment_begin[s] .. segment_begin[s + 1] - 1. */
struct step_rows {
    const int32_t *position;      /* i32 [T] */
    const int32_t *slot;          /* i32 [T] */
    const int32_t *segment_begin; /* i32 [segments + 1]; padded segments are empty */
    uint32_t rows;
    uint32_t segments;
};

/* Normalises each head in place (QK-norm): rms over d with weight [d].
 *   inout  x  f32, row t at x + t*stride, heads side by side, each d wide */
struct head_norm_args {
    float *x;
    uint32_t stride;
    const float *weight; /* f32 [d] */
    float eps;
    uint32_t rows, heads, head_dim;
};

/* Rotates q and k of the fused projection and writes k and v to their pages.
 *   inout  qkv   f32 [T, (H + 2G) * d]   q in place; k and v columns are unspecified afterwards
 *   in     cos, sin  f32 [positions, rotary_dims / 2]
 * Half-split pairs (i, i + rotary_dims/2) of each head: out0 = fmaf(x0, c, -(x1*s)),
 * out1 = fmaf(x1, c, x0*s); dims past rotary_dims pass through (partial rotary); 0 = no rotation.
 * F16 pages: rounded half to even. */
struct rope_kv_write_args {
    float *qkv;
    const float *cos_table, *sin_table;
    struct step_rows rows;
    struct kv_view kv;
    uint32_t heads;
    uint32_t rotary_dims; /* even, <= head_dim */
};

/* Causal grouped-query attention over pages: row t sees positions 0..position[t] of its slot,
 * blockwise as canonical.h states (blocks of 256, online softmax in ascending order).
 *   in   q    f32, row t at q + t*q_stride, [H, d]
 *   out  out  f32 [T, H * d]
 * context_max: a bound on position + 1 over the rows (the context bucket). H % G == 0. */
struct attention_args {
    const float *q;
    uint32_t q_stride;
    struct step_rows rows;
    struct kv_view kv;
    float *out;
    struct kernels_workspace workspace;
    uint32_t heads;
    uint32_t context_max;
};

/* ---------------------------------------------------------------- head and sampling */

/* Sampling parameters, an array entry per sampled row; device memory. Several rows may belong to
 * one sequence. The order is penalties -> temperature -> top_k -> top_p -> min_p -> draw. */
struct sample_params {
    const float *temperature;  /* < 0.01: greedy */
    const uint32_t *top_k;     /* 0 = all */
    const uint32_t *top_p_q16; /* min(65535, rint(top_p * 65536)); 65536 = off */
    const uint32_t *min_p_q16; /* rint(min_p * 65536); 0 = off */
    const float *repetition;   /* 1 = off */
    const float *presence;     /* 0 = off */
    const float *frequency;    /* 0 = off */
    const uint64_t *seed;      /* Philox4x32-10 key */
    const uint64_t *position;  /* Philox counter: absolute position of the drawn token */
    const int32_t *seen_begin; /* i32 [S + 1], CSR over seen_* */
    const int32_t *seen_id;    /* ids in prompt or answer, each once per row, ascending */
    const int32_t *seen_count; /* times in the answer; 0 = in the prompt only */
};

/* Final normed rows to logits.  in x f32 [S, D], weight F16/F32 [V, D], out logits f32 [S, V]. */
struct head_logits_args {
    const float *x;
    const struct weight *weight;
    float *logits;
    struct kernels_workspace workspace;
    uint32_t rows;
};

/* Chooses a token per row of logits (order and integers as in canonical.h). A NaN, a +inf or
 * nothing but -inf sets bad. Ids of seen_id beyond the vocabulary are passed over.
 *   inout  logits  f32 [S, V]   penalties may be applied in place
 *   out    token   i32 [S]      0 where bad
 *   or     bad     u8  [S] */
struct sample_args {
    float *logits;
    uint32_t vocabulary;
    struct sample_params params;
    int32_t *token;
    uint8_t *bad;
    struct kernels_workspace workspace;
    uint32_t rows;
};

/* An INT8 copy of a head, with how far it is off: enough to tell which few logits can decide a
 * draw. Needs no luck: what it leaves out is proven not to matter. */
struct head_sketch {
    struct weight weight; /* INT8 [V, D], symmetric, one scale an output, activations per token */
    const float *norm;  /* f32 [V], device: at least |w|, the Euclidean norm of a row of the head */
    const float *error; /* f32 [V], device: at least |w - copy of w| */
};

/* head_logits and sample in one, so that a head that never holds all logits fits; equals the two,
 * with a sketch as without. */
struct head_sample_args {
    const float *x;
    const struct weight *weight;
    const struct head_sketch *sketch; /* NULL = none; a back end may pass it over */
    struct sample_params params;
    int32_t *token;
    uint8_t *bad;
    struct kernels_workspace workspace;
    uint32_t rows;
};

/* ---------------------------------------------------------------- the table */

/* X(op, args) for every op: the table below, its names and kernel_ops_require come from it. */
#define KERNEL_OPS(X)                        \
    X(embed, embed_args)                     \
    X(rms_norm, norm_args)                   \
    X(layer_norm, norm_args)                 \
    X(quantize, quantize_args)               \
    X(rms_norm_quantize, norm_quantize_args) \
    X(silu_mul, glu_args)                    \
    X(silu_mul_quantize, glu_quantize_args)  \
    X(gelu, activation_args)                 \
    X(add, add_args)                         \
    X(gemm_i8, gemm_i8_args)                 \
    X(dequantize, dequantize_args)           \
    X(linear_i8, linear_i8_args)             \
    X(linear_f32, linear_f32_args)           \
    X(head_norm, head_norm_args)             \
    X(rope_kv_write, rope_kv_write_args)     \
    X(attention, attention_args)             \
    X(head_logits, head_logits_args)         \
    X(sample, sample_args)                   \
    X(head_sample, head_sample_args)

enum kernel_op {
#define KERNEL_OP_ENUM(op, args) KERNEL_OP_##op,
    KERNEL_OPS(KERNEL_OP_ENUM)
#undef KERNEL_OP_ENUM
        KERNEL_OP_COUNT
};

/* The largest call that an engine will make: what workspaces are sized for. */
struct kernels_shape {
    uint32_t rows_max, segments_max, sampled_max, context_max;
    uint32_t n_max, k_max; /* over all linears, the head excepted */
    uint32_t dim, vocabulary;
    uint32_t heads;
    struct kv_form kv;
    bool head_sketch; /* head_sample is given one */
    bool fast;        /* 16-bit weights are of the fast form */
};

struct kernel_ops {
    const char *tier;       /* as in device_info */
    bool takes_head_sketch; /* else one is memory for nothing */
    /* Changes whenever weight_pack gives other bytes for the same source: packed weights are kept
     * on disk. */
    uint32_t packing_version;

    /* Bytes that `op` needs for any call within `shape`. */
    size_t (*workspace_bytes)(const struct device *device, enum kernel_op op,
                              const struct kernels_shape *shape);
    /* Bytes of one page of one layer, K and V, a multiple of KERNELS_ALIGNMENT_BYTES; 0: a form
     * that the back end lacks. */
    size_t (*page_bytes)(const struct kv_form *form);

    /* KERNELS_UNSUPPORTED names the form in err. */
    enum kernels_status (*weight_packed_bytes)(const struct weight_form *form, size_t *bytes,
                                               char *err, size_t err_bytes) KERNELS_CHECK_RESULT;
    /* Packs into host memory of weight_packed_bytes; position-independent, so it can be kept on
     * disk and copied to the device. Row sums are computed here. KERNELS_INVALID names what. */
    enum kernels_status (*weight_pack)(const struct weight_form *form,
                                       const struct weight_source *source, void *packed, char *err,
                                       size_t err_bytes) KERNELS_CHECK_RESULT;
    /* Once `weight->packed` is on the device: makes plans for the row buckets (ascending). */
    enum kernels_status (*weight_prepare)(struct device *device, struct weight *weight,
                                          const uint32_t *row_buckets, uint32_t bucket_count,
                                          char *err, size_t err_bytes) KERNELS_CHECK_RESULT;
    void (*weight_release)(struct device *device, struct weight *weight); /* accepts zero */

#define KERNEL_OP_MEMBER(op, args)                                                  \
    enum kernels_status (*op)(struct device * device, const struct args *arguments) \
        KERNELS_CHECK_RESULT;
    KERNEL_OPS(KERNEL_OP_MEMBER)
#undef KERNEL_OP_MEMBER
};

const char *kernel_ops_name(enum kernel_op op);
/* KERNELS_UNSUPPORTED, naming the op and the tier in err, for the first of `ops` that is NULL. */
enum kernels_status kernel_ops_require(const struct kernel_ops *table, const enum kernel_op *ops,
                                       size_t count, char *err,
                                       size_t err_bytes) KERNELS_CHECK_RESULT;

#ifdef __cplusplus
}
#endif

#endif
