#include "kernels/op_outputs.h"

#include "kernels/reference/weight.h"

/* The columns of a dense array that count; all of them where stride = columns. Elements have four
 * bytes but for INT8 rows. */
static struct op_output op_outputs_words(const void *data, uint32_t rows, size_t columns,
                                         size_t stride) {
    return (struct op_output){.data = data,
                              .row_bytes = columns * sizeof(float),
                              .stride_bytes = stride * sizeof(float),
                              .rows = rows};
}

static size_t op_outputs_dense(const void *data, uint32_t rows, size_t columns,
                               struct op_output *outputs) {
    outputs[0] = op_outputs_words(data, rows, columns, columns);
    return 1;
}

static size_t op_outputs_quantized(const struct quantized *out, uint32_t rows, uint32_t dim,
                                   struct op_output *outputs) {
    size_t count = 0;
    outputs[count++] =
        (struct op_output){.data = out->q, .row_bytes = dim, .stride_bytes = dim, .rows = rows};
    const void *words[] = {out->scale, out->zero_point, out->sum};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i] != NULL) {
            outputs[count++] = op_outputs_words(words[i], rows, 1, 1);
        }
    }
    return count;
}

/* One function an argument struct: what that op writes. */
#define OP_OUTPUTS_OF(args, count)                                                         \
    static size_t op_outputs_of_##args(const void *arguments, struct op_output *outputs) { \
        const struct args *a = arguments;                                                  \
        return (count);                                                                    \
    }
OP_OUTPUTS_OF(embed_args, op_outputs_dense(a->x, a->rows, a->table->form.k, outputs))
OP_OUTPUTS_OF(norm_args, op_outputs_dense(a->y, a->rows, a->dim, outputs))
OP_OUTPUTS_OF(quantize_args, op_outputs_quantized(&a->out, a->rows, a->dim, outputs))
OP_OUTPUTS_OF(norm_quantize_args,
              op_outputs_quantized(&a->quantize.out, a->norm.rows, a->norm.dim, outputs))
OP_OUTPUTS_OF(glu_args, op_outputs_dense(a->y, a->rows, a->dim, outputs))
OP_OUTPUTS_OF(glu_quantize_args,
              op_outputs_quantized(&a->quantize.out, a->glu.rows, a->glu.dim, outputs))
OP_OUTPUTS_OF(activation_args, op_outputs_dense(a->y, a->rows, a->dim, outputs))
OP_OUTPUTS_OF(add_args, op_outputs_dense(a->x, a->rows, a->dim, outputs))
OP_OUTPUTS_OF(gemm_i8_args,
              op_outputs_dense(a->sum, a->rows,
                               (size_t)a->weight->form.n *reference_groups(&a->weight->form),
                               outputs))
OP_OUTPUTS_OF(dequantize_args, op_outputs_dense(a->y, a->rows, a->weight->form.n, outputs))
OP_OUTPUTS_OF(linear_i8_args, op_outputs_dense(a->y, a->rows, a->weight->form.n, outputs))
OP_OUTPUTS_OF(linear_f32_args, op_outputs_dense(a->y, a->rows, a->weight->form.n, outputs))
OP_OUTPUTS_OF(attention_args, op_outputs_dense(a->out, a->rows.rows,
                                               (size_t)a->heads * a->kv.form.head_dim, outputs))
OP_OUTPUTS_OF(head_logits_args, op_outputs_dense(a->logits, a->rows, a->weight->form.n, outputs))
OP_OUTPUTS_OF(sample_args, op_outputs_dense(a->token, a->rows, 1, outputs))
OP_OUTPUTS_OF(head_sample_args, op_outputs_dense(a->token, a->rows, 1, outputs))
#undef OP_OUTPUTS_OF

static size_t op_outputs_of_head_norm_args(const void *arguments, struct op_output *outputs) {
    const struct head_norm_args *a = arguments;
    outputs[0] = op_outputs_words(a->x, a->rows, (size_t)a->heads * a->head_dim, a->stride);
    return 1;
}

static size_t op_outputs_of_rope_kv_write_args(const void *arguments, struct op_output *outputs) {
    const struct rope_kv_write_args *a = arguments;
    size_t dim = a->kv.form.head_dim, heads = (size_t)a->heads + 2 * (size_t)a->kv.form.kv_heads;
    outputs[0] = op_outputs_words(a->qkv, a->rows.rows, a->heads * dim, heads * dim);
    return 1;
}

typedef size_t op_outputs_fn(const void *arguments, struct op_output *outputs);

static op_outputs_fn *const op_outputs_of[KERNEL_OP_COUNT] = {
#define OP_OUTPUTS_ENTRY(op, args) [KERNEL_OP_##op] = op_outputs_of_##args,
    KERNEL_OPS(OP_OUTPUTS_ENTRY)
#undef OP_OUTPUTS_ENTRY
};

size_t op_outputs(const struct watched_op *seen, struct op_output outputs[OP_OUTPUTS_MAX]) {
    return op_outputs_of[seen->op](seen->args, outputs);
}
