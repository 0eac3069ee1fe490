#include "engine/tokenizer_words.h"

#include <assert.h>
#include <string.h>

#include "engine/unicode.h"
#include "schemas/utf8.h"

/* A name is listed only when goldens of the reference library cover its rule. */
static const struct {
    const char *name;
    enum tokenizer_words_rule rule;
} known_rules[] = {
    {"gpt-2", TOKENIZER_WORDS_GPT2},
    {"smollm", TOKENIZER_WORDS_DIGITS_THEN_GPT2},
};

bool tokenizer_words_find(struct text_span name, enum tokenizer_words_rule *rule) {
    for (size_t i = 0; i < sizeof known_rules / sizeof known_rules[0]; i++) {
        const char *known = known_rules[i].name;
        if (name.bytes == strlen(known) && memcmp(name.data, known, name.bytes) == 0) {
            *rule = known_rules[i].rule;
            return true;
        }
    }
    return false;
}

/* What the rule is applied to: the text up to its end, or up to the next number if those are
 * taken out first. */
struct reader {
    const char *text;
    size_t bytes;
    bool stops_at_numbers;
};

struct glyph {
    size_t bytes; /* 0: nothing is there */
    enum unicode_class class;
};

static struct glyph glyph_at(const struct reader *reader, size_t at) {
    if (at == reader->bytes) {
        return (struct glyph){0, UNICODE_OTHER};
    }
    const struct utf8_step step = utf8_next(reader->text + at, reader->bytes - at);
    const enum unicode_class class =
        step.kind == UTF8_WHOLE ? unicode_class_of(step.code_point) : UNICODE_OTHER;
    if (class == UNICODE_NUMBER && reader->stops_at_numbers) {
        return (struct glyph){0, UNICODE_OTHER};
    }
    return (struct glyph){step.bytes, class};
}

/* Where the run of one class that holds `at` ends; *last_at is its last code point. */
static size_t run_end(const struct reader *reader, size_t at, enum unicode_class class,
                      size_t *last_at) {
    struct glyph glyph = glyph_at(reader, at);
    while (glyph.bytes > 0 && glyph.class == class) {
        *last_at = at;
        at += glyph.bytes;
        glyph = glyph_at(reader, at);
    }
    return at;
}

/* The bytes of an English contraction at the front, 0 if there is none. Lower case only: so says
 * the rule. */
static size_t contraction_bytes(const struct reader *reader) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (reader->text[0] != '\'') {
        return 0;
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t bytes = strlen(endings[i]);
        if (reader->bytes > bytes && memcmp(reader->text + 1, endings[i], bytes) == 0) {
            return 1 + bytes;
        }
    }
    return 0;
}

/* White space leaves its last code point to the word that follows it, if there is one and that
 * does not leave nothing. */
static size_t space_bytes(const struct reader *reader) {
    size_t last_at = 0;
    const size_t end = run_end(reader, 0, UNICODE_SPACE, &last_at);
    const bool is_followed = glyph_at(reader, end).bytes > 0;
    return is_followed && last_at > 0 ? last_at : end;
}

size_t tokenizer_words_next(enum tokenizer_words_rule rule, const char *text, size_t bytes) {
    assert(bytes > 0);
    const struct reader reader = {text, bytes, rule == TOKENIZER_WORDS_DIGITS_THEN_GPT2};
    const struct glyph first = glyph_at(&reader, 0);
    if (first.bytes == 0) {
        return utf8_next(text, bytes).bytes; /* a number that stands alone */
    }
    const size_t contraction = contraction_bytes(&reader);
    if (contraction > 0) {
        return contraction;
    }
    size_t last_at = 0;
    if (first.class != UNICODE_SPACE) {
        return run_end(&reader, 0, first.class, &last_at);
    }
    const struct glyph second = glyph_at(&reader, first.bytes);
    if (text[0] == ' ' && second.bytes > 0 && second.class != UNICODE_SPACE) {
        return run_end(&reader, first.bytes, second.class, &last_at);
    }
    return space_bytes(&reader);
}
