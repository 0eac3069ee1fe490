#include "engine/tokenizer_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quote.h"

static uint64_t hash_of(const char *spelled, size_t bytes) {
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (uint8_t)spelled[i]) * 0x100000001B3u;
    }
    return hash ^ (hash >> 32);
}

static bool is_spelled(const struct tokenizer_names *names, uint32_t id, const char *spelled,
                       size_t bytes) {
    const struct text_span token = names->spec->tokens[id];
    return token.bytes == bytes && memcmp(token.data, spelled, bytes) == 0;
}

/* The slot that holds a spelling, or the free one where it belongs. */
static size_t slot_of(const struct tokenizer_names *names, const char *spelled, size_t bytes) {
    const size_t mask = names->slot_count - 1;
    size_t slot = (size_t)hash_of(spelled, bytes) & mask;
    while (names->slots[slot] != TOKENIZER_NO_ID &&
           !is_spelled(names, names->slots[slot], spelled, bytes)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

enum text_status tokenizer_names_init(struct tokenizer_names *names,
                                      const struct tokenizer_spec *spec, char *err,
                                      size_t err_bytes) {
    *names = (struct tokenizer_names){.spec = spec, .slot_count = 2};
    while (names->slot_count < 2 * spec->vocabulary_count) {
        names->slot_count *= 2;
    }
    names->slots = malloc(names->slot_count * sizeof *names->slots);
    if (names->slots == NULL) {
        snprintf(err, err_bytes, "no memory to index %zu tokens", spec->vocabulary_count);
        return TEXT_NO_MEMORY;
    }
    memset(names->slots, 0xFF, names->slot_count * sizeof *names->slots);
    for (uint32_t id = 0; id < spec->vocabulary_count; id++) {
        const struct text_span token = spec->tokens[id];
        if (token.bytes == 0 || (spec->types != NULL && spec->types[id] != TOKEN_NORMAL)) {
            continue;
        }
        const size_t slot = slot_of(names, token.data, token.bytes);
        if (names->slots[slot] != TOKENIZER_NO_ID) {
            snprintf(err, err_bytes, "tokens %u and %u are both \"%s\"",
                     (unsigned)names->slots[slot], (unsigned)id,
                     quote_of(token.data, token.bytes).text);
            tokenizer_names_deinit(names);
            return TEXT_BAD;
        }
        names->slots[slot] = id;
    }
    return TEXT_OK;
}

void tokenizer_names_deinit(struct tokenizer_names *names) {
    free(names->slots);
    *names = (struct tokenizer_names){0};
}

uint32_t tokenizer_names_find(const struct tokenizer_names *names, const char *spelled,
                              size_t bytes) {
    return bytes == 0 ? TOKENIZER_NO_ID : names->slots[slot_of(names, spelled, bytes)];
}
