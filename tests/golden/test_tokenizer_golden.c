/* The demo model's own vocabulary and chat template against the reference library: goldens made by
 * tests/golden/make_tokenizer.py, which describes the two files. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat_template.h"
#include "engine/decode_text.h"
#include "engine/gguf.h"
#include "engine/tokenizer.h"
#include "tests/support/test.h"

#define MODEL_PATH "models/SmolLM2-135M-Instruct.Q4_1.gguf"
#define GOLDENS "tests/golden/tokenizer/"

enum {
    LINE_BYTES_MAX = 1 << 16,
    FIELDS_MAX = 16,
    IDS_MAX = 4096,
};

static struct gguf *model;
static struct tokenizer *smollm;
static struct tokenizer *gpt2;

/* ---- the model's vocabulary ---- */

static struct text_span *read_strings(const char *key, size_t *count) {
    struct gguf_array array;
    assert_int_equal(gguf_get_array(model, key, &array), GGUF_FOUND);
    struct gguf_string *strings = calloc(array.count, sizeof *strings);
    struct text_span *spans = calloc(array.count, sizeof *spans);
    assert_true(gguf_array_strings(&array, strings));
    for (size_t i = 0; i < array.count; i++) {
        spans[i] = (struct text_span){strings[i].data, strings[i].bytes};
    }
    free(strings);
    *count = array.count;
    return spans;
}

static struct tokenizer *open_tokenizer(const char *pre_tokenizer) {
    struct tokenizer_spec spec = tokenizer_spec_empty();
    struct gguf_array types;
    assert_int_equal(gguf_get_array(model, "tokenizer.ggml.token_type", &types), GGUF_FOUND);
    struct text_span *tokens = read_strings("tokenizer.ggml.tokens", &spec.vocabulary_count);
    struct text_span *merges = read_strings("tokenizer.ggml.merges", &spec.merge_count);
    int32_t *own_types = calloc(types.count, sizeof *own_types);
    assert_int_equal(types.count, spec.vocabulary_count);
    for (size_t i = 0; i < types.count; i++) {
        int64_t type;
        assert_true(gguf_array_integer(&types, i, &type));
        own_types[i] = (int32_t)type;
    }
    spec.model = (struct text_span){"gpt2", 4};
    spec.pre_tokenizer = (struct text_span){pre_tokenizer, strlen(pre_tokenizer)};
    spec.tokens = tokens;
    spec.types = own_types;
    spec.merges = merges;
    assert_int_equal(gguf_get_u32(model, "tokenizer.ggml.eos_token_id", &spec.eos_id), GGUF_FOUND);

    struct tokenizer *tokenizer = NULL;
    char err[256] = "";
    if (tokenizer_open(&spec, &tokenizer, err, sizeof err) != TEXT_OK) {
        fail_msg("%s", err);
    }
    free(tokens);
    free(merges);
    free(own_types);
    return tokenizer;
}

static int set_up(void **state) {
    char err[256] = "";
    if (gguf_open(MODEL_PATH, &model, err, sizeof err) != GGUF_OK) {
        fprintf(stderr, "%s (run 'make model')\n", err);
        return 1;
    }
    smollm = open_tokenizer("smollm");
    gpt2 = open_tokenizer("gpt-2");
    return 0;
}

static int tear_down(void **state) {
    tokenizer_close(smollm);
    tokenizer_close(gpt2);
    gguf_close(model);
    return 0;
}

/* ---- the golden files ---- */

struct field {
    char *data; /* in the line, terminated for messages; may hold zeros */
    size_t bytes;
};

struct golden {
    FILE *file;
    char line[LINE_BYTES_MAX];
    struct field fields[FIELDS_MAX];
    size_t field_count;
    size_t line_count;
};

static struct golden *open_golden(const char *path) {
    struct golden *golden = calloc(1, sizeof *golden);
    golden->file = fopen(path, "r");
    assert_non_null(golden->file);
    return golden;
}

/* The number of lines that were read. */
static size_t close_golden(struct golden *golden) {
    const size_t line_count = golden->line_count;
    fclose(golden->file);
    free(golden);
    return line_count;
}

static void unescape(struct field *field) {
    char *out = field->data;
    for (const char *in = field->data; *in != 0; in++) {
        if (*in != '\\') {
            *out++ = *in;
        } else if (*++in == 'x') {
            const char digits[] = {in[1], in[2], 0};
            *out++ = (char)strtol(digits, NULL, 16);
            in += 2;
        } else {
            *out++ = *in == 'n' ? '\n' : *in == 't' ? '\t' : *in;
        }
    }
    field->bytes = (size_t)(out - field->data);
    *out = 0;
}

static bool next_line(struct golden *golden) {
    if (fgets(golden->line, sizeof golden->line, golden->file) == NULL) {
        return false;
    }
    golden->line_count++;
    golden->field_count = 0;
    char *rest = golden->line;
    char *end = strchr(rest, '\n');
    assert_non_null(end);
    *end = 0;
    while (rest != NULL) {
        assert_true(golden->field_count < FIELDS_MAX);
        struct field *field = &golden->fields[golden->field_count++];
        field->data = strsep(&rest, "\t");
        field->bytes = strlen(field->data);
    }
    return true;
}

static size_t parse_ids(const char *text, uint32_t *ids) {
    size_t count = 0;
    while (*text != 0) {
        char *end = NULL;
        assert_true(count < IDS_MAX);
        ids[count++] = (uint32_t)strtoul(text, &end, 10);
        assert_true(end > text);
        text = *end == ' ' ? end + 1 : end;
    }
    return count;
}

static void assert_ids(const struct golden *golden, const struct token_buffer *actual,
                       const char *expected_text) {
    static uint32_t expected[IDS_MAX];
    const size_t count = parse_ids(expected_text, expected);
    for (size_t i = 0; i < count && i < actual->count; i++) {
        if (actual->ids[i] != expected[i]) {
            fail_msg("line %zu, token %zu: %u instead of %u", golden->line_count, i,
                     (unsigned)actual->ids[i], (unsigned)expected[i]);
        }
    }
    if (actual->count != count) {
        fail_msg("line %zu: %zu tokens instead of %zu", golden->line_count, actual->count, count);
    }
}

/* ---- cases ---- */

static void encodes_as_the_reference_does(void **state) {
    static uint32_t ids[IDS_MAX];
    struct golden *golden = open_golden(GOLDENS "strings.tsv");
    while (next_line(golden)) {
        assert_int_equal(golden->field_count, 3);
        struct field text = golden->fields[0];
        unescape(&text);
        const bool is_same = strcmp(golden->fields[2].data, "=") == 0;
        struct token_buffer out = {ids, 0, IDS_MAX};
        assert_int_equal(tokenizer_encode(smollm, text.data, text.bytes, &out), TEXT_OK);
        assert_ids(golden, &out, golden->fields[1].data);
        out.count = 0;
        assert_int_equal(tokenizer_encode(gpt2, text.data, text.bytes, &out), TEXT_OK);
        assert_ids(golden, &out, golden->fields[is_same ? 1 : 2].data);
    }
    assert_true(close_golden(golden) >= 500);
}

/* Every text comes back through the token by token decoder, but for the bytes that this vocabulary
 * lacks: six control characters, and first bytes of planes that hold nothing. */
static void decodes_what_it_encoded(void **state) {
    static uint32_t ids[IDS_MAX];
    static char room[LINE_BYTES_MAX];
    struct golden *golden = open_golden(GOLDENS "strings.tsv");
    size_t whole_count = 0;
    while (next_line(golden)) {
        struct field text = golden->fields[0];
        unescape(&text);
        struct token_buffer out = {ids, 0, IDS_MAX};
        assert_int_equal(tokenizer_encode(smollm, text.data, text.bytes, &out), TEXT_OK);
        if (tokenizer_encodable_bytes(smollm, text.data, text.bytes) < text.bytes) {
            continue;
        }
        struct decode_text decode;
        assert_int_equal(decode_text_init(&decode, smollm, room, sizeof room, NULL, 0), TEXT_OK);
        for (size_t i = 0; i < out.count; i++) {
            assert_false(tokenizer_is_control(smollm, ids[i]));
            assert_int_equal(decode_text_push(&decode, ids[i]), TEXT_OK);
        }
        decode_text_finish(&decode);
        assert_int_equal(decode.stable_bytes, text.bytes);
        assert_memory_equal(room, text.data, text.bytes);
        whole_count++;
    }
    assert_true(close_golden(golden) >= 500);
    assert_true(whole_count >= 400);
}

static void renders_the_models_own_template_as_the_reference_does(void **state) {
    static uint32_t ids[IDS_MAX];
    struct gguf_string jinja;
    assert_int_equal(gguf_get_string(model, "tokenizer.chat_template", &jinja), GGUF_FOUND);
    struct chat_template chat;
    char err[256] = "";
    if (chat_template_init(&chat, smollm, jinja.data, jinja.bytes, err, sizeof err) != TEXT_OK) {
        fail_msg("%s", err);
    }
    assert_true(chat.has_default_system);
    struct golden *golden = open_golden(GOLDENS "chat.tsv");
    while (next_line(golden)) {
        struct chat_message messages[FIELDS_MAX / 2];
        size_t count = 0;
        for (size_t i = 2; i + 1 < golden->field_count; i += 2) {
            unescape(&golden->fields[i]);
            unescape(&golden->fields[i + 1]);
            const struct field role = golden->fields[i];
            const struct field content = golden->fields[i + 1];
            messages[count++] = (struct chat_message){
                {role.data, role.bytes}, {content.data, content.bytes}, false};
        }
        struct token_buffer out = {ids, 0, IDS_MAX};
        const bool add_prompt = golden->fields[0].data[0] == '1';
        assert_int_equal(
            chat_template_render(&chat, messages, count, add_prompt, &out, NULL, err, sizeof err),
            TEXT_OK);
        assert_ids(golden, &out, golden->fields[1].data);
    }
    assert_true(close_golden(golden) >= 30);
}

static void knows_the_models_end_tokens(void **state) {
    size_t end_count = 0;
    for (uint32_t id = 0; id < tokenizer_vocabulary_count(smollm); id++) {
        end_count += tokenizer_is_end(smollm, id);
    }
    assert_int_equal(end_count, 2);
    assert_true(tokenizer_is_end(smollm, tokenizer_find_control(smollm, "<|im_end|>")));
    assert_true(tokenizer_is_end(smollm, tokenizer_find_control(smollm, "<|endoftext|>")));
}

TEST_MAIN_WITH(set_up, tear_down, cmocka_unit_test(encodes_as_the_reference_does),
               cmocka_unit_test(decodes_what_it_encoded),
               cmocka_unit_test(renders_the_models_own_template_as_the_reference_does),
               cmocka_unit_test(knows_the_models_end_tokens))
