#include "engine/tokenizer_bpe.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quote.h"
#include "engine/tokenizer_names.h"

/* ---- the table ---- */

/* Open addressing on the pair; left is TOKENIZER_NO_ID where the slot is free. */
struct tokenizer_bpe_slot {
    uint32_t left;
    uint32_t right;
    uint32_t rank;
    uint32_t merged;
};

static size_t slot_of(const struct tokenizer_bpe *bpe, uint32_t left, uint32_t right) {
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
    hash *= 0xBF58476D1CE4E5B9u;
    const size_t mask = bpe->slot_count - 1;
    size_t slot = (size_t)(hash >> 32) & mask;
    while (bpe->slots[slot].left != TOKENIZER_NO_ID &&
           (bpe->slots[slot].left != left || bpe->slots[slot].right != right)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

/* The merge of two neighbours, or NULL. */
static const struct tokenizer_bpe_slot *find(const struct tokenizer_bpe *bpe, uint32_t left,
                                             uint32_t right) {
    const struct tokenizer_bpe_slot *slot = &bpe->slots[slot_of(bpe, left, right)];
    return slot->left == TOKENIZER_NO_ID ? NULL : slot;
}

static enum text_status bad_merge(size_t rank, struct text_span merge, const char *why, char *err,
                                  size_t err_bytes) {
    snprintf(err, err_bytes, "merge %zu (\"%s\") %s", rank, quote_of(merge.data, merge.bytes).text,
             why);
    return TEXT_BAD;
}

/* "left right": no spelling of a byte-level token holds a space. */
static enum text_status add_merge(struct tokenizer_bpe *bpe, const struct tokenizer_names *names,
                                  size_t rank, struct text_span merge, char *err,
                                  size_t err_bytes) {
    char whole[4 * TOKENIZER_TOKEN_BYTES_MAX];
    if (merge.bytes > sizeof whole) {
        return bad_merge(rank, merge, "is too long", err, err_bytes);
    }
    const char *space = merge.bytes > 0 ? memchr(merge.data, ' ', merge.bytes) : NULL;
    if (space == NULL) {
        return bad_merge(rank, merge, "is no pair", err, err_bytes);
    }
    const size_t left_bytes = (size_t)(space - merge.data);
    const size_t right_bytes = merge.bytes - left_bytes - 1;
    memcpy(whole, merge.data, left_bytes);
    memcpy(whole + left_bytes, space + 1, right_bytes);
    const uint32_t left = tokenizer_names_find(names, whole, left_bytes);
    const uint32_t right = tokenizer_names_find(names, whole + left_bytes, right_bytes);
    const uint32_t merged = tokenizer_names_find(names, whole, left_bytes + right_bytes);
    if (left == TOKENIZER_NO_ID || right == TOKENIZER_NO_ID || merged == TOKENIZER_NO_ID) {
        return bad_merge(rank, merge, "joins what are no normal tokens", err, err_bytes);
    }
    struct tokenizer_bpe_slot *slot = &bpe->slots[slot_of(bpe, left, right)];
    if (slot->left != TOKENIZER_NO_ID) {
        return bad_merge(rank, merge, "comes twice", err, err_bytes);
    }
    *slot = (struct tokenizer_bpe_slot){left, right, (uint32_t)rank, merged};
    return TEXT_OK;
}

static enum text_status fill(struct tokenizer_bpe *bpe, const struct tokenizer_spec *spec,
                             char *err, size_t err_bytes) {
    struct tokenizer_names names;
    enum text_status status = tokenizer_names_init(&names, spec, err, err_bytes);
    if (status != TEXT_OK) {
        return status;
    }
    for (size_t rank = 0; rank < spec->merge_count && status == TEXT_OK; rank++) {
        status = add_merge(bpe, &names, rank, spec->merges[rank], err, err_bytes);
    }
    tokenizer_names_deinit(&names);
    return status;
}

enum text_status tokenizer_bpe_init(struct tokenizer_bpe *bpe,
                                    const struct tokenizer_vocabulary *vocabulary,
                                    const struct tokenizer_spec *spec, char *err,
                                    size_t err_bytes) {
    *bpe = (struct tokenizer_bpe){.byte_ids = vocabulary->byte_ids, .slot_count = 2};
    if (spec->merge_count > TOKENIZER_MERGES_MAX) {
        snprintf(err, err_bytes, "%zu merges, more than %d", spec->merge_count,
                 TOKENIZER_MERGES_MAX);
        return TEXT_BAD;
    }
    while (bpe->slot_count < 2 * spec->merge_count) {
        bpe->slot_count *= 2;
    }
    bpe->slots = malloc(bpe->slot_count * sizeof *bpe->slots);
    if (bpe->slots == NULL) {
        snprintf(err, err_bytes, "no memory for %zu merges", spec->merge_count);
        return TEXT_NO_MEMORY;
    }
    memset(bpe->slots, 0xFF, bpe->slot_count * sizeof *bpe->slots);
    const enum text_status status = fill(bpe, spec, err, err_bytes);
    if (status != TEXT_OK) {
        tokenizer_bpe_deinit(bpe);
    }
    return status;
}

void tokenizer_bpe_deinit(struct tokenizer_bpe *bpe) {
    free(bpe->slots);
    *bpe = (struct tokenizer_bpe){0};
}

/* ---- a word ----
 *
 * Symbols form a doubly linked list over the word's bytes; possible joins wait in a heap, best
 * first. A join leaves the entries of the two symbols in the heap: an entry counts only while the
 * pair at its place still has its rank. */

enum {
    NONE = INT32_MAX, /* no neighbour */
};

struct tokenizer_bpe_symbol {
    uint32_t id; /* TOKENIZER_NO_ID: joined to its left neighbour */
    uint32_t previous;
    uint32_t next;
};

struct word {
    const struct tokenizer_bpe *bpe;
    struct tokenizer_bpe_symbol *symbols;
    uint64_t *heap; /* rank in the upper half, place in the lower: one comparison orders both */
    size_t heap_count;
    size_t heap_capacity;
};

static void heap_push(struct word *word, uint64_t entry) {
    assert(word->heap_count < word->heap_capacity);
    size_t at = word->heap_count++;
    while (at > 0 && word->heap[(at - 1) / 2] > entry) {
        word->heap[at] = word->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    word->heap[at] = entry;
}

static uint64_t heap_pop(struct word *word) {
    const uint64_t top = word->heap[0];
    const uint64_t last = word->heap[--word->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= word->heap_count) {
            break;
        }
        if (child + 1 < word->heap_count && word->heap[child + 1] < word->heap[child]) {
            child++;
        }
        if (word->heap[child] >= last) {
            break;
        }
        word->heap[at] = word->heap[child];
        at = child;
    }
    word->heap[at] = last;
    return top;
}

static const struct tokenizer_bpe_slot *merge_at(const struct word *word, uint32_t at) {
    const struct tokenizer_bpe_symbol *left = &word->symbols[at];
    if (left->id == TOKENIZER_NO_ID || left->next == NONE) {
        return NULL;
    }
    return find(word->bpe, left->id, word->symbols[left->next].id);
}

static void consider(struct word *word, uint32_t at) {
    const struct tokenizer_bpe_slot *merge = merge_at(word, at);
    if (merge != NULL) {
        heap_push(word, (uint64_t)merge->rank << 32 | at);
    }
}

static void join(struct word *word, uint32_t at, uint32_t merged) {
    struct tokenizer_bpe_symbol *left = &word->symbols[at];
    struct tokenizer_bpe_symbol *right = &word->symbols[left->next];
    left->id = merged;
    left->next = right->next;
    right->id = TOKENIZER_NO_ID;
    if (left->next != NONE) {
        word->symbols[left->next].previous = at;
    }
    if (left->previous != NONE) {
        consider(word, left->previous);
    }
    consider(word, at);
}

static enum text_status reserve(struct tokenizer_bpe_scratch *scratch, size_t bytes) {
    if (bytes <= scratch->capacity) {
        return TEXT_OK;
    }
    const size_t capacity = bytes < 64 ? 64 : bytes;
    tokenizer_bpe_scratch_deinit(scratch);
    scratch->symbols = malloc(capacity * sizeof *scratch->symbols);
    scratch->heap = malloc(2 * capacity * sizeof *scratch->heap);
    if (scratch->symbols == NULL || scratch->heap == NULL) {
        tokenizer_bpe_scratch_deinit(scratch);
        return TEXT_NO_MEMORY;
    }
    scratch->capacity = capacity;
    return TEXT_OK;
}

/* One symbol for each byte that has a token; gives their number. */
static size_t start(struct word *word, const char *text, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        const uint32_t id = word->bpe->byte_ids[(uint8_t)text[i]];
        if (id != TOKENIZER_NO_ID) {
            word->symbols[count] = (struct tokenizer_bpe_symbol){
                id, count == 0 ? NONE : (uint32_t)count - 1, (uint32_t)count + 1};
            count++;
        }
    }
    if (count > 0) {
        word->symbols[count - 1].next = NONE;
    }
    return count;
}

static enum text_status take(const struct word *word, size_t count, struct token_buffer *out) {
    size_t taken = out->count;
    for (uint32_t at = count > 0 ? 0 : NONE; at != NONE; at = word->symbols[at].next) {
        if (taken == out->capacity) {
            return TEXT_TOO_LONG;
        }
        out->ids[taken++] = word->symbols[at].id;
    }
    out->count = taken;
    return TEXT_OK;
}

enum text_status tokenizer_bpe_encode_word(const struct tokenizer_bpe *bpe, const char *text,
                                           size_t bytes, struct tokenizer_bpe_scratch *scratch,
                                           struct token_buffer *out) {
    assert(bytes < NONE);
    if (reserve(scratch, bytes) != TEXT_OK) {
        return TEXT_NO_MEMORY;
    }
    struct word word = {bpe, scratch->symbols, scratch->heap, 0, 2 * scratch->capacity};
    const size_t count = start(&word, text, bytes);
    for (uint32_t at = 0; at + 1 < count; at++) {
        consider(&word, at);
    }
    while (word.heap_count > 0) {
        const uint64_t entry = heap_pop(&word);
        const uint32_t at = (uint32_t)entry;
        const struct tokenizer_bpe_slot *merge = merge_at(&word, at);
        if (merge != NULL && merge->rank == entry >> 32) {
            join(&word, at, merge->merged);
        }
    }
    return take(&word, count, out);
}

void tokenizer_bpe_scratch_deinit(struct tokenizer_bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (struct tokenizer_bpe_scratch){0};
}
