#ifndef SOLFLEET_ENGINE_DECODE_TEXT_H
#define SOLFLEET_ENGINE_DECODE_TEXT_H

/* The text of one answer while it grows: tokens go in one by one, UTF-8 comes out.
 *
 * The first stable_bytes of the text are final: whole code points that no later token can change
 * or take back. Held back are the bytes of an unfinished code point and every ending that may turn
 * out to be the beginning of a stop string. A stop string is looked for in the text, whatever
 * tokens it is spread over; the text ends before the one that is complete first (of several that
 * are complete at the same byte, before the longest). Bytes that are no UTF-8 become U+FFFD, one
 * for each maximal run. Control tokens stand for no text.
 *
 * Threads: one at a time. Memory: the caller's struct and the caller's buffer; nothing is
 * allocated. Refuses to know: end tokens, limits of length, and why an answer ends. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tokenizer.h"
#include "schemas/utf8.h"

enum {
    DECODE_TEXT_STOPS_MAX = 16,
    DECODE_TEXT_STOP_BYTES_MAX = 256, /* of one stop string */
};

struct decode_text {
    const struct tokenizer *tokenizer; /* borrowed until the last push */
    char *text;                        /* borrowed: [capacity_bytes] */
    size_t capacity_bytes;
    size_t text_bytes;   /* valid UTF-8, stable or not */
    size_t stable_bytes; /* never retracted; final after finish or once stopped */
    bool is_stopped;     /* a stop string was met: push no more */
    bool is_finished;

    char cut[UTF8_BYTES_MAX]; /* of a code point whose rest has not come yet */
    size_t cut_bytes;

    const struct text_span *stops; /* borrowed: [stop_count] */
    size_t stop_count;
    uint16_t matched_bytes[DECODE_TEXT_STOPS_MAX]; /* how much of each the text ends with */
    /* For each prefix of a stop string, its longest proper prefix that is also its suffix. */
    uint16_t border_bytes[DECODE_TEXT_STOPS_MAX][DECODE_TEXT_STOP_BYTES_MAX];
};

/* The buffer that token_count tokens of this vocabulary can never fill. */
size_t decode_text_capacity_bytes(const struct tokenizer *tokenizer, size_t token_count);

/* Starts an empty text. The spans of stops and their bytes are borrowed until the last push or
 * finish. BAD: too many stop strings, an empty one, one too long, one that is not UTF-8. */
__attribute__((warn_unused_result)) enum text_status
decode_text_init(struct decode_text *decode, const struct tokenizer *tokenizer, char *text,
                 size_t capacity_bytes, const struct text_span *stops, size_t stop_count);

/* Begins the text with words that no token will stand for, and in which no stop string is looked
 * for. Before the first push; the buffer must have room for them. */
void decode_text_begin(struct decode_text *decode, const char *words);

/* Adds a token; the id must be in the vocabulary, the text neither stopped nor finished.
 * TOO_LONG: the buffer cannot take the whole token, and the text is as it was. */
__attribute__((warn_unused_result)) enum text_status decode_text_push(struct decode_text *decode,
                                                                      uint32_t id);

/* Ends the text: what was held back becomes final, an unfinished code point one U+FFFD. Does
 * nothing after a stop, or a second time. Room for that U+FFFD is always kept. */
void decode_text_finish(struct decode_text *decode);

#endif
