/* A batch: the flat arrays of one pass, on the host, ready to be copied to a device.
 *
 * Rows are ragged: the decode rows of running sequences and bounded chunks of prefill rows, each
 * sequence's rows contiguous and in ascending positions (one segment). Sampled rows are a list
 * independent of sequences: several per sequence, or none. Plain arrays reserved once by
 * batch_init; one thread. Refuses to know sequences, tickets, jobs and devices. */
#ifndef SOLFLEET_ENGINE_BATCH_H
#define SOLFLEET_ENGINE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Upper bounds that size the arrays; all > 0. */
struct batch_limits {
    uint32_t rows_max;
    uint32_t slots_max;   /* sequences holding pages; one more slot exists for padding */
    uint32_t sampled_max; /* rows sampled in a step */
    uint32_t slot_pages_max;
    uint32_t vocabulary;
    uint32_t seen_max; /* entries of the CSR penalty lists, all rows together */
};

struct batch {
    struct batch_limits limits;

    uint32_t row_count;
    int32_t *token;    /* [rows_max] */
    int32_t *position; /* [rows_max] */
    int32_t *slot;     /* [rows_max] */

    uint32_t segment_count;
    int32_t *segment_begin; /* [slots_max + 2] */
    uint32_t context_max;   /* largest position + 1 */

    int32_t *page_table; /* [slots_max + 1, slot_pages_max]; the last slot names scratch page 0 */

    uint32_t sampled_count;
    int32_t *sampled_row; /* [sampled_max], rows of this batch */
    /* Sampling parameters per sampled row: meanings in kernels/ops.h, struct sample_params. */
    float *temperature;
    uint32_t *top_k;
    uint32_t *top_p_q16;
    uint32_t *min_p_q16;
    float *repetition;
    float *presence;
    float *frequency;
    uint64_t *seed;
    uint64_t *draw_position;
    int32_t *seen_begin; /* [sampled_max + 1] */
    int32_t *seen_id;    /* [seen_max] */
    int32_t *seen_count; /* [seen_max] */

    /* Read back by forward_run, per sampled row. */
    int32_t *sampled_token; /* [sampled_max] */
    uint8_t *sampled_bad;   /* [sampled_max] */
    uint8_t *row_bad;       /* [rows_max] */
};

/* False when memory ran out; *batch is then zeroed. */
bool batch_init(struct batch *batch, const struct batch_limits *limits)
    __attribute__((warn_unused_result));
void batch_deinit(struct batch *batch); /* accepts zeroed */
/* Empties the batch; the page table keeps its entries. */
void batch_clear(struct batch *batch);

/* Names the pages of a slot's first positions. The slot's later entries name the scratch page. */
void batch_set_pages(struct batch *batch, uint32_t slot, const int32_t *pages, uint32_t count);
/* Takes over what every slot of another batch of the same limits is named. */
void batch_copy_pages(struct batch *batch, const struct batch *from);
/* Names one page of a slot. */
void batch_set_page(struct batch *batch, uint32_t slot, uint32_t index, int32_t page);
/* Appends one segment, the rows of one slot; gives the index of its first row. count >= 1. */
uint32_t batch_add_segment(struct batch *batch, uint32_t slot, uint32_t first_position,
                           const int32_t *tokens, uint32_t count);
/* Appends a sampled row, greedy and without penalties until the caller says otherwise in the
 * arrays; gives its index in them. */
uint32_t batch_add_sampled(struct batch *batch, uint32_t row);
/* Appends to the penalty list of the sampled row that was added last; ids ascend. */
void batch_add_seen(struct batch *batch, int32_t id, int32_t count);

#endif
