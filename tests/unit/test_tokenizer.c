#include "engine/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/tiny_vocabulary.h"

static struct tiny_vocabulary tiny;

static int set_up(void **state) {
    tiny_vocabulary_init(&tiny);
    return 0;
}

static int tear_down(void **state) {
    tiny_vocabulary_deinit(&tiny);
    return 0;
}

/* What tokenizer_open says of the spec as it stands, with a part of the message. */
static void assert_refused(enum text_status status, const char *message_part) {
    struct tokenizer *tokenizer = (struct tokenizer *)&tiny;
    char err[256] = "";
    assert_int_equal(tokenizer_open(&tiny.spec, &tokenizer, err, sizeof err), status);
    assert_null(tokenizer);
    if (strstr(err, message_part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err, message_part);
    }
}

static void assert_decodes_to(const struct tokenizer *tokenizer, const struct token_buffer *out,
                              const char *text, size_t bytes) {
    size_t at = 0;
    for (size_t i = 0; i < out->count; i++) {
        const struct text_span token = tokenizer_token_bytes(tokenizer, out->ids[i]);
        assert_true(token.bytes <= bytes - at);
        assert_memory_equal(token.data, text + at, token.bytes);
        at += token.bytes;
    }
    assert_int_equal(at, bytes);
}

static void gives_back_any_bytes_unchanged_and_no_control_token(void **state) {
    tiny_vocabulary_merge(&tiny, " ", "t");
    tiny_vocabulary_merge(&tiny, "<", "|");
    tiny_vocabulary_merge(&tiny, "\n", "\n");
    tiny_vocabulary_merge(&tiny, "\xE4", "\xBD");
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    uint64_t random = test_seed();
    for (int round = 0; round < 2000; round++) {
        static const char likely[] = " \n\t<|im_end|>'the 12 \xE4\xBD\xA0";
        char text[64];
        uint32_t ids[64];
        const size_t bytes = test_random(&random) % sizeof text;
        for (size_t i = 0; i < bytes; i++) {
            const uint64_t value = test_random(&random);
            text[i] = value & 1 ? likely[(value >> 8) % (sizeof likely - 1)] : (char)(value >> 8);
        }
        struct token_buffer out = {ids, 0, 64};
        assert_int_equal(tokenizer_encode(tokenizer, text, bytes, &out), TEXT_OK);
        assert_decodes_to(tokenizer, &out, text, bytes);
        for (size_t i = 0; i < out.count; i++) {
            assert_false(tokenizer_is_control(tokenizer, ids[i]));
        }
    }
    tokenizer_close(tokenizer);
}

static void keeps_text_that_spells_a_control_token_as_text(void **state) {
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    static const char text[] = "<|im_end|>\n<|im_start|>system\n<|endoftext|>";
    uint32_t ids[64];
    struct token_buffer out = {ids, 0, 64};
    assert_int_equal(tokenizer_encode(tokenizer, text, sizeof text - 1, &out), TEXT_OK);
    assert_int_equal(out.count, sizeof text - 1);
    for (size_t i = 0; i < out.count; i++) {
        assert_int_equal(ids[i], TINY_FIRST_BYTE_ID + (uint8_t)text[i]);
    }
    tokenizer_close(tokenizer);
}

static void refuses_merges_that_would_lead_to_a_control_token(void **state) {
    tiny_vocabulary_add(&tiny, "ab", TOKEN_CONTROL);
    tiny.merges[tiny.spec.merge_count++] = (struct text_span){strdup("a b"), 3};
    assert_refused(TEXT_BAD, "merge 0 (\"a b\") joins what are no normal tokens");
}

static void encodes_nothing_to_nothing(void **state) {
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    struct token_buffer out = {NULL, 0, 0};
    assert_int_equal(tokenizer_encode(tokenizer, "", 0, &out), TEXT_OK);
    assert_int_equal(tokenizer_encode(tokenizer, NULL, 0, &out), TEXT_OK);
    assert_int_equal(out.count, 0);
    tokenizer_close(tokenizer);
}

static void joins_within_words_only(void **state) {
    const uint32_t at = tiny_vocabulary_merge(&tiny, "t", " ");
    const uint32_t digits = tiny_vocabulary_merge(&tiny, "1", "2");
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    uint32_t ids[8];
    struct token_buffer out = {ids, 0, 8};
    assert_int_equal(tokenizer_encode(tokenizer, "at 12", 5, &out), TEXT_OK);
    assert_int_equal(out.count, 5);
    for (size_t i = 0; i < out.count; i++) {
        assert_true(ids[i] != at && ids[i] != digits);
    }
    tokenizer_close(tokenizer);

    tiny.spec.pre_tokenizer = (struct text_span){"gpt-2", 5}; /* keeps numbers together */
    tokenizer = tiny_vocabulary_open(&tiny);
    out.count = 0;
    assert_int_equal(tokenizer_encode(tokenizer, "at 12", 5, &out), TEXT_OK);
    assert_int_equal(out.count, 4);
    assert_int_equal(ids[3], digits);
    tokenizer_close(tokenizer);
}

static void says_too_long_and_leaves_the_buffer_as_it_was(void **state) {
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    uint32_t ids[6] = {9, 9, 9, 9, 9, 42};
    struct token_buffer out = {ids, 1, 5};
    assert_int_equal(tokenizer_encode(tokenizer, "ab cd", 5, &out), TEXT_TOO_LONG);
    assert_int_equal(out.count, 1);
    assert_int_equal(ids[0], 9);
    assert_int_equal(ids[5], 42);
    assert_int_equal(tokenizer_encode(tokenizer, "ab c", 4, &out), TEXT_OK);
    assert_int_equal(out.count, 5);
    assert_int_equal(tokenizer_encode(tokenizer, "x", 1, &out), TEXT_TOO_LONG);
    assert_int_equal(tokenizer_encode(tokenizer, "", 0, &out), TEXT_OK);
    tokenizer_close(tokenizer);
}

static void refuses_a_text_over_the_limit_whatever_the_buffer(void **state) {
    for (unsigned byte = 0; byte < 256; byte++) {
        tiny.types[TINY_FIRST_BYTE_ID + byte] = byte == 'b' ? TOKEN_NORMAL : TOKEN_UNUSED;
    }
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    const size_t bytes = TOKENIZER_TEXT_BYTES_MAX;
    char *text = malloc(bytes + 1);
    memset(text, 'a', bytes + 1); /* no token for it: within the limit it becomes nothing */
    uint32_t ids[1];
    struct token_buffer out = {ids, 0, 1};
    assert_int_equal(tokenizer_encode(tokenizer, text, bytes, &out), TEXT_OK);
    assert_int_equal(out.count, 0);
    assert_int_equal(tokenizer_encodable_bytes(tokenizer, text, bytes), 0);
    assert_int_equal(tokenizer_encode(tokenizer, text, bytes + 1, &out), TEXT_TOO_LONG);
    free(text);
    tokenizer_close(tokenizer);
}

static void finds_user_defined_tokens_whole_and_the_longest_of_them(void **state) {
    const uint32_t think = tiny_vocabulary_add(&tiny, "<think>", TOKEN_USER_DEFINED);
    const uint32_t two = tiny_vocabulary_add(&tiny, "  ", TOKEN_USER_DEFINED);
    const uint32_t three = tiny_vocabulary_add(&tiny, "   ", TOKEN_USER_DEFINED);
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    uint32_t ids[16];
    struct token_buffer out = {ids, 0, 16};
    assert_int_equal(tokenizer_encode(tokenizer, "a<think>   <thin  ", 18, &out), TEXT_OK);
    const uint32_t expected[] = {
        TINY_FIRST_BYTE_ID + 'a',
        think,
        three,
        TINY_FIRST_BYTE_ID + '<',
        TINY_FIRST_BYTE_ID + 't',
        TINY_FIRST_BYTE_ID + 'h',
        TINY_FIRST_BYTE_ID + 'i',
        TINY_FIRST_BYTE_ID + 'n',
        two,
    };
    assert_int_equal(out.count, sizeof expected / sizeof expected[0]);
    assert_memory_equal(ids, expected, sizeof expected);
    assert_false(tokenizer_is_control(tokenizer, think));
    out = (struct token_buffer){ids, 0, 1};
    assert_int_equal(tokenizer_encode(tokenizer, "a<think>", 8, &out), TEXT_TOO_LONG);
    assert_int_equal(out.count, 0);
    tokenizer_close(tokenizer);
}

static void knows_what_each_token_stands_for(void **state) {
    const uint32_t the = tiny_vocabulary_merge(&tiny, " ", "t");
    const uint32_t unused = tiny_vocabulary_add(&tiny, "[PAD]", TOKEN_UNUSED);
    const uint32_t foreign = tiny_vocabulary_add(&tiny, "a\xE4\xBD\xA0 b", TOKEN_NORMAL);
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    assert_int_equal(tokenizer_vocabulary_count(tokenizer), foreign + 1);
    struct text_span bytes = tokenizer_token_bytes(tokenizer, the);
    assert_int_equal(bytes.bytes, 2);
    assert_memory_equal(bytes.data, " t", 2);
    for (unsigned byte = 0; byte < 256; byte++) {
        bytes = tokenizer_token_bytes(tokenizer, TINY_FIRST_BYTE_ID + byte);
        assert_int_equal(bytes.bytes, 1);
        assert_int_equal((uint8_t)bytes.data[0], byte);
    }
    bytes = tokenizer_token_bytes(tokenizer, TINY_END_ID);
    assert_int_equal(bytes.bytes, 10);
    assert_memory_equal(bytes.data, "<|im_end|>", 10);
    assert_int_equal(tokenizer_token_bytes(tokenizer, unused).bytes, 0);
    assert_true(tokenizer_is_control(tokenizer, unused));
    bytes = tokenizer_token_bytes(tokenizer, foreign); /* outside the alphabet: as it stands */
    assert_memory_equal(bytes.data, "a\xE4\xBD\xA0 b", 6);
    assert_int_equal(tokenizer_token_bytes_max(tokenizer), 6); /* control names do not count */
    tokenizer_close(tokenizer);
}

static void honours_every_end_token(void **state) {
    const uint32_t first = tiny_vocabulary_add(&tiny, "<|eot|>", TOKEN_CONTROL);
    tiny_vocabulary_add(&tiny, "<|eom|>", TOKEN_CONTROL);
    tiny_vocabulary_add(&tiny, "<|more|>", TOKEN_CONTROL);
    tiny_vocabulary_add(&tiny, "<|other|>", TOKEN_CONTROL);
    const uint32_t more[] = {first + 2, TINY_END_ID};
    tiny.spec.eos_id = first;
    tiny.spec.eot_id = first;
    tiny.spec.eom_id = first + 1;
    tiny.spec.end_ids = more;
    tiny.spec.end_count = 2;
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    for (uint32_t id = 0; id < tokenizer_vocabulary_count(tokenizer); id++) {
        const bool is_end =
            id == TINY_END_OF_TEXT_ID || id == TINY_END_ID || (id >= first && id <= first + 2);
        assert_int_equal(tokenizer_is_end(tokenizer, id), is_end);
    }
    tokenizer_close(tokenizer);
}

/* A text token that looks like an end token must not end an answer. */
static void takes_only_control_tokens_for_end_tokens_by_name(void **state) {
    tiny.types[TINY_END_ID] = TOKEN_NORMAL;
    tiny.spec.eos_id = TOKENIZER_NO_ID;
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    assert_false(tokenizer_is_end(tokenizer, TINY_END_ID));
    assert_int_equal(tokenizer_find_control(tokenizer, "<|im_end|>"), TOKENIZER_NO_ID);
    assert_int_equal(tokenizer_find_control(tokenizer, "<|im_start|>"), TINY_START_ID);
    assert_int_equal(tokenizer_find_control(tokenizer, "<|im_start"), TOKENIZER_NO_ID);
    assert_int_equal(tokenizer_find_control(tokenizer, "a"), TOKENIZER_NO_ID);
    tokenizer_close(tokenizer);
}

static void offers_a_bos_only_where_the_model_wants_one(void **state) {
    tiny.spec.bos_id = TINY_START_ID;
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    assert_int_equal(tokenizer_bos_id(tokenizer), TOKENIZER_NO_ID);
    tokenizer_close(tokenizer);

    tiny.spec.add_bos = true;
    tokenizer = tiny_vocabulary_open(&tiny);
    assert_int_equal(tokenizer_bos_id(tokenizer), TINY_START_ID);
    uint32_t ids[4];
    struct token_buffer out = {ids, 0, 4};
    assert_int_equal(tokenizer_encode(tokenizer, "a", 1, &out), TEXT_OK);
    assert_int_equal(out.count, 1); /* encode never adds it, so it cannot come twice */
    assert_int_equal(ids[0], TINY_FIRST_BYTE_ID + 'a');
    tokenizer_close(tokenizer);

    tiny.spec.bos_id = TOKENIZER_NO_ID;
    assert_refused(TEXT_BAD, "bos");
}

static void refuses_other_kinds_of_tokenizer_by_name(void **state) {
    tiny.spec.pre_tokenizer = (struct text_span){"llama-bpe", 9};
    assert_refused(TEXT_UNSUPPORTED, "pre-tokenizer \"llama-bpe\"");
    tiny.spec.pre_tokenizer = (struct text_span){NULL, 0};
    assert_refused(TEXT_UNSUPPORTED, "pre-tokenizer \"\"");
    tiny.spec.model = (struct text_span){"llama", 5};
    assert_refused(TEXT_UNSUPPORTED, "tokenizer model \"llama\"");
    tiny.spec.model = (struct text_span){NULL, 0};
    assert_refused(TEXT_UNSUPPORTED, "tokenizer model \"\"");
}

static void refuses_ids_beyond_the_vocabulary(void **state) {
    const uint32_t beyond = (uint32_t)tiny.spec.vocabulary_count;
    uint32_t *const ids[] = {&tiny.spec.bos_id, &tiny.spec.eos_id,     &tiny.spec.eot_id,
                             &tiny.spec.eom_id, &tiny.spec.unknown_id, &tiny.spec.padding_id};
    static const char *const names[] = {"bos", "eos", "eot", "eom", "unknown", "padding"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        *ids[i] = beyond;
        assert_refused(TEXT_BAD, names[i]);
        *ids[i] = TOKENIZER_NO_ID;
    }
    tiny.spec.end_ids = &beyond;
    tiny.spec.end_count = 1;
    assert_refused(TEXT_BAD, "the end token 259 is beyond the vocabulary of 259");
}

static void refuses_more_end_tokens_than_it_keeps(void **state) {
    uint32_t ids[TOKENIZER_END_IDS_MAX + 1];
    for (uint32_t i = 0; i <= TOKENIZER_END_IDS_MAX; i++) {
        ids[i] = TINY_FIRST_BYTE_ID + i;
    }
    tiny.spec.end_ids = ids;
    tiny.spec.end_count = TOKENIZER_END_IDS_MAX + 1;
    assert_refused(TEXT_UNSUPPORTED, "end tokens");
}

static void refuses_a_vocabulary_that_contradicts_itself(void **state) {
    tiny_vocabulary_add(&tiny, "a", TOKEN_NORMAL);
    assert_refused(TEXT_BAD, "tokens 100 and 259 are both \"a\"");
    tiny.types[TINY_FIRST_ADDED_ID] = 7;
    assert_refused(TEXT_BAD, "token 259 has the unknown type 7");
    tiny.types[TINY_FIRST_ADDED_ID] = -1;
    assert_refused(TEXT_BAD, "unknown type -1");
    tiny.types[TINY_FIRST_ADDED_ID] = TOKEN_BYTE;
    assert_refused(TEXT_UNSUPPORTED, "byte token");
    tiny.spec.vocabulary_count = 0;
    assert_refused(TEXT_BAD, "0 tokens");
    tiny.spec.vocabulary_count = (size_t)TOKENIZER_VOCABULARY_MAX + 1;
    assert_refused(TEXT_BAD, "1048577 tokens");
    tiny.spec.vocabulary_count = TINY_FIRST_ADDED_ID + 1; /* for the tear-down */
}

static void refuses_tokens_out_of_bounds(void **state) {
    char *text = malloc(2 * TOKENIZER_TOKEN_BYTES_MAX + 2);
    memset(text, 'x', 2 * TOKENIZER_TOKEN_BYTES_MAX + 1);
    text[2 * TOKENIZER_TOKEN_BYTES_MAX + 1] = 0;
    const uint32_t id = tiny_vocabulary_add(&tiny, text, TOKEN_NORMAL);
    assert_refused(TEXT_BAD, "token 259 has 2049 bytes");
    tiny.tokens[id].bytes = TOKENIZER_TOKEN_BYTES_MAX + 1;
    assert_refused(TEXT_BAD, "means 1025 bytes");
    tiny.tokens[id].bytes = TOKENIZER_TOKEN_BYTES_MAX;
    tokenizer_close(tiny_vocabulary_open(&tiny));
    tiny.tokens[id].bytes = 0;
    tokenizer_close(tiny_vocabulary_open(&tiny)); /* nothing can produce an empty normal token */
    tiny.types[id] = TOKEN_USER_DEFINED;
    assert_refused(TEXT_BAD, "user-defined token 259 is empty");
    free(text);
}

static void refuses_merges_that_make_no_sense(void **state) {
    static const struct {
        const char *merge;
        const char *message_part;
    } bad[] = {
        {"ab", "is no pair"},          {"", "is no pair"},
        {" b", "no normal tokens"},    {"a ", "no normal tokens"},
        {"a b c", "no normal tokens"}, {"a zz", "no normal tokens"},
        {"a c", "no normal tokens"}, /* "ac" is no token */
        {"a b", "comes twice"},
    };
    tiny_vocabulary_merge(&tiny, "a", "b");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tiny.merges[1] = (struct text_span){bad[i].merge, strlen(bad[i].merge)};
        tiny.spec.merge_count = 2;
        assert_refused(TEXT_BAD, "merge 1");
        assert_refused(TEXT_BAD, bad[i].message_part);
    }
    char *big = malloc(5000);
    memset(big, 'a', 5000);
    tiny.merges[1] = (struct text_span){big, 5000};
    assert_refused(TEXT_BAD, "too long");
    tiny.spec.merge_count = (size_t)TOKENIZER_MERGES_MAX + 1;
    assert_refused(TEXT_BAD, "merges");
    tiny.spec.merge_count = 1;
    free(big);
}

static void takes_a_file_without_token_types_as_all_normal(void **state) {
    tiny.spec.types = NULL;
    struct tokenizer *tokenizer = tiny_vocabulary_open(&tiny);
    assert_false(tokenizer_is_control(tokenizer, TINY_START_ID));
    assert_int_equal(tokenizer_find_control(tokenizer, "<|im_start|>"), TOKENIZER_NO_ID);
    tokenizer_close(tokenizer);
}

static void needs_neither_the_spec_nor_its_strings_after_open(void **state) {
    struct tiny_vocabulary *mine = malloc(sizeof *mine);
    tiny_vocabulary_init(mine);
    const uint32_t the = tiny_vocabulary_merge(mine, "a", "b");
    struct tokenizer *tokenizer = tiny_vocabulary_open(mine);
    tiny_vocabulary_deinit(mine);
    memset(mine, 0xA5, sizeof *mine);
    free(mine);
    uint32_t ids[2];
    struct token_buffer out = {ids, 0, 2};
    assert_int_equal(tokenizer_encode(tokenizer, "ab", 2, &out), TEXT_OK);
    assert_int_equal(out.count, 1);
    assert_int_equal(ids[0], the);
    tokenizer_close(tokenizer);
    tokenizer_close(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

TEST_MAIN(CASE(gives_back_any_bytes_unchanged_and_no_control_token),
          CASE(keeps_text_that_spells_a_control_token_as_text),
          CASE(refuses_merges_that_would_lead_to_a_control_token), CASE(encodes_nothing_to_nothing),
          CASE(joins_within_words_only), CASE(says_too_long_and_leaves_the_buffer_as_it_was),
          CASE(refuses_a_text_over_the_limit_whatever_the_buffer),
          CASE(finds_user_defined_tokens_whole_and_the_longest_of_them),
          CASE(knows_what_each_token_stands_for), CASE(honours_every_end_token),
          CASE(takes_only_control_tokens_for_end_tokens_by_name),
          CASE(offers_a_bos_only_where_the_model_wants_one),
          CASE(refuses_other_kinds_of_tokenizer_by_name), CASE(refuses_ids_beyond_the_vocabulary),
          CASE(refuses_more_end_tokens_than_it_keeps),
          CASE(refuses_a_vocabulary_that_contradicts_itself), CASE(refuses_tokens_out_of_bounds),
          CASE(refuses_merges_that_make_no_sense),
          CASE(takes_a_file_without_token_types_as_all_normal),
          CASE(needs_neither_the_spec_nor_its_strings_after_open))
