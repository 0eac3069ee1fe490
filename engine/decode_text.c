#include "engine/decode_text.h"

#include <assert.h>
#include <string.h>

static const struct text_span replacement = {"\xEF\xBF\xBD", 3};

size_t decode_text_capacity_bytes(const struct tokenizer *tokenizer, size_t token_count) {
    /* At worst each byte of each token becomes one U+FFFD. */
    return (token_count * tokenizer_token_bytes_max(tokenizer) + 1) * replacement.bytes;
}

/* The table of Knuth, Morris and Pratt. */
static void fill_borders(const struct text_span *stop, uint16_t *border_bytes) {
    uint16_t border = 0;
    border_bytes[0] = 0;
    for (size_t i = 1; i < stop->bytes; i++) {
        while (border > 0 && stop->data[i] != stop->data[border]) {
            border = border_bytes[border - 1];
        }
        border = (uint16_t)(border + (stop->data[i] == stop->data[border]));
        border_bytes[i] = border;
    }
}

enum text_status decode_text_init(struct decode_text *decode, const struct tokenizer *tokenizer,
                                  char *text, size_t capacity_bytes, const struct text_span *stops,
                                  size_t stop_count) {
    assert(capacity_bytes >= replacement.bytes);
    if (stop_count > DECODE_TEXT_STOPS_MAX) {
        return TEXT_BAD;
    }
    for (size_t i = 0; i < stop_count; i++) {
        if (stops[i].bytes == 0 || stops[i].bytes > DECODE_TEXT_STOP_BYTES_MAX ||
            !utf8_is_valid(stops[i].data, stops[i].bytes, NULL)) {
            return TEXT_BAD;
        }
    }
    *decode = (struct decode_text){
        .tokenizer = tokenizer,
        .text = text,
        .capacity_bytes = capacity_bytes,
        .stops = stops,
        .stop_count = stop_count,
    };
    for (size_t i = 0; i < stop_count; i++) {
        fill_borders(&stops[i], decode->border_bytes[i]);
    }
    return TEXT_OK;
}

void decode_text_begin(struct decode_text *decode, const char *words) {
    size_t bytes = strlen(words);
    assert(decode->text_bytes == 0 && bytes + replacement.bytes <= decode->capacity_bytes);
    memcpy(decode->text, words, bytes);
    decode->text_bytes = decode->stable_bytes = bytes;
}

/* How much of a stop string the text ends with once `byte` is added. */
static uint16_t match(const struct decode_text *decode, size_t stop, char byte) {
    const char *data = decode->stops[stop].data;
    uint16_t matched = decode->matched_bytes[stop];
    while (matched > 0 && data[matched] != byte) {
        matched = decode->border_bytes[stop][matched - 1];
    }
    return (uint16_t)(matched + (data[matched] == byte));
}

static void append_byte(struct decode_text *decode, char byte) {
    assert(decode->text_bytes < decode->capacity_bytes);
    decode->text[decode->text_bytes++] = byte;
    size_t complete_bytes = 0;
    for (size_t i = 0; i < decode->stop_count; i++) {
        decode->matched_bytes[i] = match(decode, i, byte);
        if (decode->matched_bytes[i] == decode->stops[i].bytes &&
            decode->stops[i].bytes > complete_bytes) {
            complete_bytes = decode->stops[i].bytes;
        }
    }
    if (complete_bytes > 0) {
        decode->text_bytes -= complete_bytes;
        decode->stable_bytes = decode->text_bytes;
        decode->is_stopped = true;
    }
}

static void append(struct decode_text *decode, struct text_span span) {
    for (size_t i = 0; i < span.bytes && !decode->is_stopped; i++) {
        append_byte(decode, span.data[i]);
    }
}

/* What may still turn out to be a stop string stays back. A stop string begins with a whole code
 * point, so what is stable ends with one. */
static void settle(struct decode_text *decode) {
    size_t held_bytes = 0;
    for (size_t i = 0; i < decode->stop_count; i++) {
        if (decode->matched_bytes[i] > held_bytes) {
            held_bytes = decode->matched_bytes[i];
        }
    }
    decode->stable_bytes = decode->text_bytes - held_bytes;
}

/* The bytes of raw text once it is made valid, without an unfinished code point at its end. */
static size_t valid_bytes(struct text_span raw) {
    size_t bytes = 0;
    for (size_t at = 0; at < raw.bytes;) {
        const struct utf8_step step = utf8_next(raw.data + at, raw.bytes - at);
        bytes += step.kind == UTF8_WHOLE ? step.bytes : 0;
        bytes += step.kind == UTF8_BAD ? replacement.bytes : 0;
        at += step.bytes;
    }
    return bytes;
}

static void append_raw(struct decode_text *decode, struct text_span raw) {
    decode->cut_bytes = 0;
    for (size_t at = 0; at < raw.bytes && !decode->is_stopped;) {
        const struct utf8_step step = utf8_next(raw.data + at, raw.bytes - at);
        if (step.kind == UTF8_WHOLE) {
            append(decode, (struct text_span){raw.data + at, step.bytes});
        } else if (step.kind == UTF8_BAD) {
            append(decode, replacement);
        } else {
            memcpy(decode->cut, raw.data + at, step.bytes);
            decode->cut_bytes = step.bytes;
        }
        at += step.bytes;
    }
}

enum text_status decode_text_push(struct decode_text *decode, uint32_t id) {
    assert(!decode->is_stopped && !decode->is_finished);
    if (tokenizer_is_control(decode->tokenizer, id)) {
        return TEXT_OK;
    }
    const struct text_span token = tokenizer_token_bytes(decode->tokenizer, id);
    char joined[UTF8_BYTES_MAX + TOKENIZER_TOKEN_BYTES_MAX];
    memcpy(joined, decode->cut, decode->cut_bytes);
    memcpy(joined + decode->cut_bytes, token.data, token.bytes);
    const struct text_span raw = {joined, decode->cut_bytes + token.bytes};
    if (valid_bytes(raw) + replacement.bytes > decode->capacity_bytes - decode->text_bytes) {
        return TEXT_TOO_LONG;
    }
    append_raw(decode, raw);
    if (!decode->is_stopped) {
        settle(decode);
    }
    return TEXT_OK;
}

void decode_text_finish(struct decode_text *decode) {
    if (!decode->is_stopped && !decode->is_finished && decode->cut_bytes > 0) {
        append(decode, replacement);
    }
    decode->is_finished = true;
    decode->cut_bytes = 0;
    decode->stable_bytes = decode->text_bytes;
}
