#include "engine/decode_text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/support/tiny_vocabulary.h"

enum {
    ROOM_BYTES = 1024,
};

static struct tiny_vocabulary tiny;
static struct tokenizer *tokenizer;
static struct decode_text decode;
static char room[ROOM_BYTES];

static int set_up(void **state) {
    tiny_vocabulary_init(&tiny);
    tokenizer = tiny_vocabulary_open(&tiny);
    return 0;
}

static int tear_down(void **state) {
    tokenizer_close(tokenizer);
    tiny_vocabulary_deinit(&tiny);
    return 0;
}

static void start(const struct text_span *stops, size_t stop_count) {
    assert_int_equal(decode_text_init(&decode, tokenizer, room, sizeof room, stops, stop_count),
                     TEXT_OK);
}

/* One token a byte, until the text stops. Gives the number of bytes pushed. */
static size_t push(const char *bytes, size_t count) {
    size_t pushed = 0;
    while (pushed < count && !decode.is_stopped) {
        const uint32_t id = TINY_FIRST_BYTE_ID + (uint8_t)bytes[pushed++];
        assert_int_equal(decode_text_push(&decode, id), TEXT_OK);
    }
    return pushed;
}

static void assert_stable(const char *text) {
    assert_int_equal(decode.stable_bytes, strlen(text));
    assert_memory_equal(room, text, strlen(text));
}

static void shows_no_part_of_a_code_point_split_over_tokens(void **state) {
    start(NULL, 0);
    push("a\xF0\x9F\x98", 4);
    assert_stable("a");
    push("\x80", 1);
    assert_stable("a\xF0\x9F\x98\x80");
    push("\xE4\xBD\xA0\xE4", 4);
    assert_stable("a\xF0\x9F\x98\x80\xE4\xBD\xA0");
    push("\xBD\xA0", 2);
    decode_text_finish(&decode);
    assert_stable("a\xF0\x9F\x98\x80\xE4\xBD\xA0\xE4\xBD\xA0");
    assert_true(decode.is_finished);
    assert_false(decode.is_stopped);
}

static void replaces_each_bad_run_once(void **state) {
    start(NULL, 0);
    push("a\xFF", 2);
    assert_stable("a\xEF\xBF\xBD");
    push("\xE4\xBD", 2); /* may still become whole */
    assert_stable("a\xEF\xBF\xBD");
    push("b", 1); /* it did not */
    assert_stable("a\xEF\xBF\xBD\xEF\xBF\xBD"
                  "b");
    push("\xF0\x9F\x98", 3);
    decode_text_finish(&decode);
    assert_stable("a\xEF\xBF\xBD\xEF\xBF\xBD"
                  "b\xEF\xBF\xBD");
    decode_text_finish(&decode);
    assert_stable("a\xEF\xBF\xBD\xEF\xBF\xBD"
                  "b\xEF\xBF\xBD");
}

static void stops_before_a_stop_string_over_token_edges(void **state) {
    static const struct text_span stops[] = {{"</answer>", 9}};
    start(stops, 1);
    push("42</ans", 7);
    assert_stable("42");
    assert_int_equal(push("wer>more", 8), 4);
    assert_true(decode.is_stopped);
    assert_stable("42");
    assert_int_equal(decode.text_bytes, 2);
    decode_text_finish(&decode);
    assert_stable("42");
}

static void gives_back_what_only_began_like_a_stop_string(void **state) {
    static const struct text_span stops[] = {{"aab", 3}, {"\n\n", 2}};
    start(stops, 2);
    push("xaa", 3);
    assert_stable("x");
    push("a", 1); /* the first "a" can no longer begin it; the last two can */
    assert_stable("xa");
    push("c\n", 2);
    assert_stable("xaaac");
    decode_text_finish(&decode);
    assert_stable("xaaac\n");
    assert_false(decode.is_stopped);
}

static void finds_a_stop_string_that_begins_inside_a_failed_one(void **state) {
    static const struct text_span stops[] = {{"aabaaac", 7}};
    start(stops, 1);
    push("aabaaab", 7);
    assert_stable("aaba"); /* "aab" may be its beginning again */
    push("aaac", 4);
    assert_true(decode.is_stopped);
    assert_stable("aaba");
}

static void finds_a_stop_string_inside_one_token(void **state) {
    const uint32_t id = tiny_vocabulary_add(&tiny, "abSTOPcd", TOKEN_NORMAL);
    tokenizer_close(tokenizer);
    tokenizer = tiny_vocabulary_open(&tiny);
    static const struct text_span stops[] = {{"STOP", 4}};
    start(stops, 1);
    assert_int_equal(decode_text_push(&decode, id), TEXT_OK);
    assert_true(decode.is_stopped);
    assert_stable("ab");
}

static void takes_the_stop_that_is_complete_first_and_the_longest_of_equals(void **state) {
    static const struct text_span stops[] = {{"bcd", 3}, {"c", 1}, {"abc", 3}, {"zabc", 4}};
    start(stops, 4);
    assert_int_equal(push("xxabcd", 6), 5);
    assert_true(decode.is_stopped);
    assert_stable("xx");
}

static void stops_on_characters_of_several_bytes(void **state) {
    static const struct text_span stops[] = {{"\xE4\xBD\xA0\xE5\xA5\xBD", 6}};
    start(stops, 1);
    push("\xE4\xBD\xA0", 3);
    assert_stable("");
    push("\xE4\xBD\xA0", 3);
    assert_stable("\xE4\xBD\xA0");
    push("\xE5\xA5", 2);
    assert_stable("\xE4\xBD\xA0");
    push("\xBD", 1);
    assert_true(decode.is_stopped);
    assert_stable("\xE4\xBD\xA0");
}

static void may_stop_on_the_replacement_of_an_unfinished_end(void **state) {
    static const struct text_span stops[] = {{"\xEF\xBF\xBD", 3}};
    start(stops, 1);
    push("a\xE4\xBD", 3);
    decode_text_finish(&decode);
    assert_true(decode.is_stopped);
    assert_stable("a");
}

static void gives_control_tokens_no_text(void **state) {
    start(NULL, 0);
    push("a\xE4", 2);
    assert_int_equal(decode_text_push(&decode, TINY_END_ID), TEXT_OK);
    assert_int_equal(decode_text_push(&decode, TINY_START_ID), TEXT_OK);
    assert_stable("a");
    push("\xBD\xA0", 2);
    assert_stable("a\xE4\xBD\xA0");
}

static void refuses_stop_strings_out_of_bounds(void **state) {
    char big[DECODE_TEXT_STOP_BYTES_MAX + 1];
    memset(big, 'x', sizeof big);
    struct text_span stops[DECODE_TEXT_STOPS_MAX + 1];
    for (size_t i = 0; i <= DECODE_TEXT_STOPS_MAX; i++) {
        stops[i] = (struct text_span){big, sizeof big - 1};
    }
    start(stops, DECODE_TEXT_STOPS_MAX);
    assert_int_equal(push(big, sizeof big), DECODE_TEXT_STOP_BYTES_MAX);
    assert_stable("");
    assert_int_equal(
        decode_text_init(&decode, tokenizer, room, sizeof room, stops, DECODE_TEXT_STOPS_MAX + 1),
        TEXT_BAD);
    const struct text_span bad[] = {{"", 0}, {big, sizeof big}, {"a\xFF", 2}, {"\xE4\xBD", 2}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(decode_text_init(&decode, tokenizer, room, sizeof room, &bad[i], 1),
                         TEXT_BAD);
    }
}

static void says_too_long_and_leaves_the_text_as_it_was(void **state) {
    const uint32_t id = tiny_vocabulary_add(&tiny, "abc", TOKEN_NORMAL);
    tokenizer_close(tokenizer);
    tokenizer = tiny_vocabulary_open(&tiny);
    char small[9];
    memset(small, 'z', sizeof small);
    assert_int_equal(decode_text_init(&decode, tokenizer, small, 8, NULL, 0), TEXT_OK);
    assert_int_equal(decode_text_push(&decode, id), TEXT_OK);
    assert_int_equal(decode_text_push(&decode, id), TEXT_TOO_LONG); /* 3 stay for a U+FFFD */
    assert_int_equal(decode.stable_bytes, 3);
    push("d\xE4\xBD", 3);
    assert_int_equal(decode_text_push(&decode, id), TEXT_TOO_LONG);
    assert_int_equal(decode.cut_bytes, 2);
    decode_text_finish(&decode);
    assert_int_equal(decode.stable_bytes, 7);
    assert_memory_equal(small, "abcd\xEF\xBF\xBDzz", 9);
}

static void never_fills_the_buffer_it_asks_for(void **state) {
    const uint32_t id = tiny_vocabulary_add(&tiny, "\xC3\xBF\xC3\xBF\xC3\xBF", TOKEN_NORMAL);
    tokenizer_close(tokenizer);
    tokenizer = tiny_vocabulary_open(&tiny);
    const size_t bytes = decode_text_capacity_bytes(tokenizer, 5);
    char *text = malloc(bytes);
    assert_int_equal(decode_text_init(&decode, tokenizer, text, bytes, NULL, 0), TEXT_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(decode_text_push(&decode, id), TEXT_OK); /* FF FF FF */
    }
    decode_text_finish(&decode);
    assert_int_equal(decode.stable_bytes, 5 * 3 * 3);
    free(text);
}

static void begins_with_words_in_which_nothing_stops(void **state) {
    static const struct text_span stops[] = {{"\n\n", 2}, {"#", 1}};
    start(stops, 2);
    decode_text_begin(&decode, "## A\n");
    assert_stable("## A\n");
    push("\n", 1); /* the second line break in a row, but the first that is the answer's */
    assert_false(decode.is_stopped);
    assert_stable("## A\n");
    push("x#", 2);
    assert_true(decode.is_stopped);
    assert_stable("## A\n\nx");
}

/* ---- against the obvious way ---- */

struct bytes {
    char data[512];
    size_t count;
};

static void put(struct bytes *bytes, const char *data, size_t count) {
    memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

/* All of it made valid at once, then cut before the first stop string to be complete. */
static struct bytes obvious(const struct bytes *raw, const struct text_span *stops, size_t count) {
    struct bytes text = {.count = 0};
    for (size_t at = 0; at < raw->count;) {
        const struct utf8_step step = utf8_next(raw->data + at, raw->count - at);
        const bool is_whole = step.kind == UTF8_WHOLE;
        put(&text, is_whole ? raw->data + at : "\xEF\xBF\xBD", is_whole ? step.bytes : 3);
        at += step.bytes;
    }
    for (size_t end = 1; end <= text.count; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t bytes = stops[i].bytes;
            if (bytes <= end && bytes > longest &&
                memcmp(text.data + end - bytes, stops[i].data, bytes) == 0) {
                longest = bytes;
            }
        }
        if (longest > 0) {
            text.count = end - longest;
            break;
        }
    }
    return text;
}

static void agrees_with_the_obvious_way_and_never_takes_back(void **state) {
    static const char *const pieces[] = {"a",        "b",    "ab",   "\n",   "\xE4\xBD\xA0",
                                         "\xC3\xA9", "\xE4", "\xBD", "\xA0", "\xFF"};
    enum { PIECES = sizeof pieces / sizeof pieces[0], WHOLE_PIECES = 6 };
    uint32_t piece_ids[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        piece_ids[i] = tiny_vocabulary_add_bytes(&tiny, pieces[i]);
    }
    tokenizer_close(tokenizer);
    tokenizer = tiny_vocabulary_open(&tiny);
    uint64_t random = test_seed();
    for (int round = 0; round < 20000; round++) {
        struct text_span stops[3];
        char stop_bytes[3][16];
        const size_t stop_count = test_random(&random) % 4;
        for (size_t i = 0; i < stop_count; i++) {
            stop_bytes[i][0] = 0;
            for (size_t n = 1 + test_random(&random) % 4; n > 0; n--) {
                strcat(stop_bytes[i], pieces[test_random(&random) % WHOLE_PIECES]);
            }
            stops[i] = (struct text_span){stop_bytes[i], strlen(stop_bytes[i])};
        }
        struct bytes raw = {.count = 0};
        struct bytes seen = {.count = 0}; /* all that was ever shown as stable */
        start(stops, stop_count);
        for (size_t n = test_random(&random) % 24; n > 0 && !decode.is_stopped; n--) {
            const size_t piece = test_random(&random) % PIECES;
            assert_int_equal(decode_text_push(&decode, piece_ids[piece]), TEXT_OK);
            put(&raw, pieces[piece], strlen(pieces[piece]));
            assert_true(decode.stable_bytes >= seen.count);
            put(&seen, room + seen.count, decode.stable_bytes - seen.count);
            assert_true(utf8_is_valid(seen.data, seen.count, NULL));
        }
        decode_text_finish(&decode);
        const struct bytes expected = obvious(&raw, stops, stop_count);
        assert_int_equal(decode.stable_bytes, expected.count);
        assert_memory_equal(room, expected.data, expected.count);
        assert_memory_equal(seen.data, expected.data, seen.count);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

TEST_MAIN(CASE(shows_no_part_of_a_code_point_split_over_tokens), CASE(replaces_each_bad_run_once),
          CASE(stops_before_a_stop_string_over_token_edges),
          CASE(gives_back_what_only_began_like_a_stop_string),
          CASE(finds_a_stop_string_that_begins_inside_a_failed_one),
          CASE(finds_a_stop_string_inside_one_token),
          CASE(takes_the_stop_that_is_complete_first_and_the_longest_of_equals),
          CASE(stops_on_characters_of_several_bytes),
          CASE(may_stop_on_the_replacement_of_an_unfinished_end),
          CASE(gives_control_tokens_no_text), CASE(refuses_stop_strings_out_of_bounds),
          CASE(says_too_long_and_leaves_the_text_as_it_was),
          CASE(never_fills_the_buffer_it_asks_for), CASE(begins_with_words_in_which_nothing_stops),
          CASE(agrees_with_the_obvious_way_and_never_takes_back))
