#include "engine/tokenizer_bpe.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/test.h"
#include "tests/support/tiny_vocabulary.h"

enum {
    MERGES_MAX = 60,
    WORD_BYTES_MAX = 40,
};

struct pair {
    char left[32];
    char right[32];
};

struct fixture {
    struct tiny_vocabulary tiny;
    struct tokenizer_vocabulary vocabulary;
    struct tokenizer_bpe bpe;
    struct pair pairs[MERGES_MAX];
    size_t pair_count;
};

static void join(struct fixture *fixture, const char *left, const char *right) {
    struct pair *pair = &fixture->pairs[fixture->pair_count++];
    strcpy(pair->left, left);
    strcpy(pair->right, right);
    tiny_vocabulary_merge(&fixture->tiny, left, right);
}

static void open_fixture(struct fixture *fixture) {
    char err[128];
    assert_int_equal(
        tokenizer_vocabulary_init(&fixture->vocabulary, &fixture->tiny.spec, err, sizeof err),
        TEXT_OK);
    assert_int_equal(tokenizer_bpe_init(&fixture->bpe, &fixture->vocabulary, &fixture->tiny.spec,
                                        err, sizeof err),
                     TEXT_OK);
}

static void close_fixture(struct fixture *fixture) {
    tokenizer_bpe_deinit(&fixture->bpe);
    tokenizer_vocabulary_deinit(&fixture->vocabulary);
    tiny_vocabulary_deinit(&fixture->tiny);
}

static bool is_piece(const char *word, size_t from, size_t to, const char *piece) {
    return strlen(piece) == to - from && memcmp(word + from, piece, to - from) == 0;
}

/* The obvious way: look at all pairs, join the best, leftmost of equals, until none can join.
 * Writes the pieces with a bar after each. */
static void obvious(const struct fixture *fixture, const char *word, size_t bytes, char *out) {
    size_t starts[WORD_BYTES_MAX + 1];
    size_t count = bytes;
    for (size_t i = 0; i <= bytes; i++) {
        starts[i] = i;
    }
    for (;;) {
        size_t best = fixture->pair_count;
        size_t best_at = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            for (size_t p = 0; p < best; p++) {
                if (is_piece(word, starts[i], starts[i + 1], fixture->pairs[p].left) &&
                    is_piece(word, starts[i + 1], starts[i + 2], fixture->pairs[p].right)) {
                    best = p;
                    best_at = i;
                }
            }
        }
        if (best == fixture->pair_count) {
            break;
        }
        memmove(&starts[best_at + 1], &starts[best_at + 2],
                sizeof starts[0] * (count - best_at - 1));
        count--;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t at = starts[i]; at < starts[i + 1]; at++) {
            *out++ = word[at];
        }
        *out++ = '|';
    }
    *out = 0;
}

static void show(const struct fixture *fixture, const struct token_buffer *ids, char *out) {
    size_t at = 0;
    for (size_t i = 0; i < ids->count; i++) {
        const struct text_span token =
            tokenizer_vocabulary_bytes(&fixture->vocabulary, ids->ids[i]);
        memcpy(out + at, token.data, token.bytes);
        at += token.bytes;
        out[at++] = '|';
    }
    out[at] = 0;
}

/* A random table over three letters: parts are what exists already, so long chains appear. */
static void fill_randomly(struct fixture *fixture, uint64_t *random) {
    static const char *const letters[] = {"a", "b", "c"};
    const size_t wanted = 1 + test_random(random) % (MERGES_MAX - 1);
    for (size_t attempt = 0; attempt < 4 * wanted && fixture->pair_count < wanted; attempt++) {
        char parts[2][sizeof fixture->pairs[0].left];
        for (size_t side = 0; side < 2; side++) {
            const size_t choice = test_random(random) % (3 + fixture->pair_count);
            const struct pair *pair = &fixture->pairs[choice < 3 ? 0 : choice - 3];
            snprintf(parts[side], sizeof parts[side], "%.15s%.15s",
                     choice < 3 ? letters[choice] : pair->left, choice < 3 ? "" : pair->right);
        }
        bool is_new = strlen(parts[0]) + strlen(parts[1]) < 16;
        for (size_t p = 0; p < fixture->pair_count; p++) {
            is_new &= strcmp(parts[0], fixture->pairs[p].left) != 0 ||
                      strcmp(parts[1], fixture->pairs[p].right) != 0;
        }
        if (is_new) {
            join(fixture, parts[0], parts[1]);
        }
    }
}

static void joins_as_the_obvious_way_does(void **state) {
    uint64_t random = test_seed();
    struct fixture *fixture = malloc(sizeof *fixture);
    for (int table = 0; table < 60; table++) {
        memset(fixture, 0, sizeof *fixture);
        tiny_vocabulary_init(&fixture->tiny);
        fill_randomly(fixture, &random);
        open_fixture(fixture);
        struct tokenizer_bpe_scratch scratch = {0};
        for (int i = 0; i < 50; i++) {
            char word[WORD_BYTES_MAX], expected[3 * WORD_BYTES_MAX], actual[3 * WORD_BYTES_MAX];
            const size_t bytes = test_random(&random) % WORD_BYTES_MAX;
            for (size_t at = 0; at < bytes; at++) {
                word[at] = (char)('a' + test_random(&random) % 3);
            }
            uint32_t ids[WORD_BYTES_MAX];
            struct token_buffer out = {ids, 0, WORD_BYTES_MAX};
            assert_int_equal(tokenizer_bpe_encode_word(&fixture->bpe, word, bytes, &scratch, &out),
                             TEXT_OK);
            obvious(fixture, word, bytes, expected);
            show(fixture, &out, actual);
            assert_string_equal(actual, expected);
        }
        tokenizer_bpe_scratch_deinit(&scratch);
        close_fixture(fixture);
    }
    free(fixture);
}

static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

/* The quadratic way needs minutes for this; n log n a fraction of a second. */
static void encodes_a_million_equal_letters_in_linear_time_or_nearly(void **state) {
    enum { BYTES = 1 << 20 };
    struct fixture *fixture = calloc(1, sizeof *fixture);
    tiny_vocabulary_init(&fixture->tiny);
    join(fixture, "a", "a");
    join(fixture, "aa", "aa");
    join(fixture, "aaaa", "aaaa");
    open_fixture(fixture);
    char *word = malloc(BYTES);
    uint32_t *ids = malloc(BYTES * sizeof *ids);
    memset(word, 'a', BYTES);
    struct tokenizer_bpe_scratch scratch = {0};
    struct token_buffer out = {ids, 0, BYTES};
    const double started = cpu_seconds();
    assert_int_equal(tokenizer_bpe_encode_word(&fixture->bpe, word, BYTES, &scratch, &out),
                     TEXT_OK);
    assert_true(cpu_seconds() - started < 5);
    assert_int_equal(out.count, BYTES / 8);
    tokenizer_bpe_scratch_deinit(&scratch);
    free(ids);
    free(word);
    close_fixture(fixture);
    free(fixture);
}

static void stops_at_the_end_of_the_buffer_and_leaves_it_as_it_was(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    tiny_vocabulary_init(&fixture->tiny);
    open_fixture(fixture);
    uint32_t ids[4] = {77, 0, 0, 88};
    struct token_buffer out = {ids, 1, 3};
    struct tokenizer_bpe_scratch scratch = {0};
    assert_int_equal(tokenizer_bpe_encode_word(&fixture->bpe, "xyz", 3, &scratch, &out),
                     TEXT_TOO_LONG);
    assert_int_equal(out.count, 1);
    assert_int_equal(ids[0], 77);
    assert_int_equal(ids[3], 88);
    assert_int_equal(tokenizer_bpe_encode_word(&fixture->bpe, "xy", 2, &scratch, &out), TEXT_OK);
    assert_int_equal(out.count, 3);
    tokenizer_bpe_scratch_deinit(&scratch);
    close_fixture(fixture);
    free(fixture);
}

/* As the reference does: what stood around such a byte becomes neighbours. */
static void leaves_out_bytes_that_have_no_token(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    tiny_vocabulary_init(&fixture->tiny);
    join(fixture, "a", "b");
    fixture->tiny.types[TINY_FIRST_BYTE_ID + 0x04] = TOKEN_UNUSED;
    open_fixture(fixture);
    uint32_t ids[8];
    struct token_buffer out = {ids, 0, 8};
    struct tokenizer_bpe_scratch scratch = {0};
    assert_int_equal(tokenizer_bpe_encode_word(&fixture->bpe,
                                               "a\x04"
                                               "bc",
                                               4, &scratch, &out),
                     TEXT_OK);
    assert_int_equal(out.count, 2);
    assert_int_equal(ids[0], TINY_FIRST_ADDED_ID);
    assert_int_equal(ids[1], TINY_FIRST_BYTE_ID + 'c');
    assert_int_equal(tokenizer_bpe_encode_word(&fixture->bpe, "\x04\x04", 2, &scratch, &out),
                     TEXT_OK);
    assert_int_equal(out.count, 2);
    tokenizer_bpe_scratch_deinit(&scratch);
    close_fixture(fixture);
    free(fixture);
}

TEST_MAIN(cmocka_unit_test(joins_as_the_obvious_way_does),
          cmocka_unit_test(encodes_a_million_equal_letters_in_linear_time_or_nearly),
          cmocka_unit_test(stops_at_the_end_of_the_buffer_and_leaves_it_as_it_was),
          cmocka_unit_test(leaves_out_bytes_that_have_no_token))
