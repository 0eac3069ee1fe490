#include "schemas/solution_measure.h"

#include <string.h>

/* ---- words ----------------------------------------------------------------------------------- */

/* The longer first: the word is the longest that stands there. */
static const char *const measure_time_words[] = {"时间复杂度", "时间", "time complexity", "time"};
static const char *const measure_space_words[] = {"空间复杂度", "空间", "space complexity", "space",
                                                  "memory"};

static bool measure_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool measure_has_word(struct solution_span text, size_t at, const char *word) {
    size_t bytes = strlen(word);
    if (text.bytes - at < bytes || strncasecmp(text.at + at, word, bytes) != 0) {
        return false;
    }
    bool is_ascii = measure_is_letter(word[0]);
    bool joins_before = is_ascii && at > 0 && measure_is_letter(text.at[at - 1]);
    bool joins_after =
        is_ascii && at + bytes < text.bytes && measure_is_letter(text.at[at + bytes]);
    return !joins_before && !joins_after;
}

/* The first of the words from `from` on; bytes 0 where there is none. */
static struct solution_span measure_find(struct solution_span text, size_t from,
                                         const char *const *words, size_t count) {
    for (size_t at = from; at < text.bytes; at++) {
        for (size_t i = 0; i < count; i++) {
            if (measure_has_word(text, at, words[i])) {
                return (struct solution_span){text.at + at, strlen(words[i])};
            }
        }
    }
    return (struct solution_span){NULL, 0};
}

static struct solution_span measure_find_time(struct solution_span text, size_t from) {
    return measure_find(text, from, measure_time_words,
                        sizeof measure_time_words / sizeof measure_time_words[0]);
}

static struct solution_span measure_find_space(struct solution_span text, size_t from) {
    return measure_find(text, from, measure_space_words,
                        sizeof measure_space_words / sizeof measure_space_words[0]);
}

bool solution_measure_has_order(const char *text, size_t bytes) {
    static const char *const signs[] = {"O(", "o(", "O（",     "Ｏ（",
                                        "Θ(", "Ω(", "\\Theta", "\\mathcal{O}"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (memmem(text, bytes, signs[i], strlen(signs[i])) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- trimming -------------------------------------------------------------------------------- */

static bool measure_cut_front(struct solution_span *text, const char *mark) {
    size_t bytes = strlen(mark);
    if (text->bytes < bytes || memcmp(text->at, mark, bytes) != 0) {
        return false;
    }
    text->at += bytes;
    text->bytes -= bytes;
    return true;
}

static bool measure_cut_back(struct solution_span *text, const char *mark) {
    size_t bytes = strlen(mark);
    if (text->bytes < bytes || memcmp(text->at + text->bytes - bytes, mark, bytes) != 0) {
        return false;
    }
    text->bytes -= bytes;
    return true;
}

static const char *const measure_leads[] = {" ", "\t", "：", ":", "=",  "为", "是", "is ", "**",
                                            "-", "•",  "，", ",", "；", ";",  "|",  "and "};
static const char *const measure_tails[] = {" ",  "\t", "\r", "，",   ",",  "；", ";",    "|",
                                            "和", "且", "而", " and", "**", "-",  " but", "、"};

static bool measure_trim_once(struct solution_span *text) {
    for (size_t i = 0; i < sizeof measure_leads / sizeof measure_leads[0]; i++) {
        if (measure_cut_front(text, measure_leads[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof measure_tails / sizeof measure_tails[0]; i++) {
        if (measure_cut_back(text, measure_tails[i])) {
            return true;
        }
    }
    return false;
}

static void measure_trim(struct solution_span *text) {
    while (measure_trim_once(text)) {
    }
}

static struct solution_span measure_from(struct solution_span text, const char *at) {
    return (struct solution_span){at, (size_t)(text.at + text.bytes - at)};
}

static struct solution_span measure_until(struct solution_span text, const char *end) {
    return (struct solution_span){text.at, (size_t)(end - text.at)};
}

/* ---- splitting ------------------------------------------------------------------------------- */

/* A line about one of them: a label at its front is not part of what it says. */
static struct solution_span measure_unlabel(struct solution_span text, struct solution_span word) {
    struct solution_span before = measure_until(text, word.at);
    measure_trim(&before);
    struct solution_span rest = before.bytes == 0 ? measure_from(text, word.at + word.bytes) : text;
    measure_trim(&rest);
    return rest;
}

/* `O(n) time and O(1) space`: the first order stands before the first word. */
static void measure_split_after(struct solution_span text, struct solution_span first_word,
                                struct solution_span *first, struct solution_span *second) {
    const char *end = first_word.at + first_word.bytes;
    *first = measure_until(text, end);
    *second = measure_from(text, end);
    measure_trim(first);
    measure_trim(second);
}

static void measure_split_before(struct solution_span text, struct solution_span first_word,
                                 struct solution_span second_word, struct solution_span *first,
                                 struct solution_span *second) {
    *first = measure_unlabel(measure_until(text, second_word.at), first_word);
    *second = measure_from(text, second_word.at + second_word.bytes);
    measure_trim(second);
}

static void measure_split_both(struct solution_span text, struct solution_span first_word,
                               struct solution_span second_word, struct solution_span *first,
                               struct solution_span *second) {
    size_t before_bytes = (size_t)(first_word.at - text.at);
    if (solution_measure_has_order(text.at, before_bytes)) {
        measure_split_after(text, first_word, first, second);
    } else {
        measure_split_before(text, first_word, second_word, first, second);
    }
    if (!solution_measure_has_order(first->at, first->bytes) ||
        !solution_measure_has_order(second->at, second->bytes)) {
        *first = *second = text; /* one order for both */
        measure_trim(first);
        measure_trim(second);
    }
}

enum solution_measure solution_measure_split(const char *line, size_t line_bytes,
                                             struct solution_span *time,
                                             struct solution_span *space) {
    struct solution_span text = {line, line_bytes};
    struct solution_span time_word = measure_find_time(text, 0);
    struct solution_span space_word = measure_find_space(text, 0);
    if (time_word.bytes == 0 && space_word.bytes == 0) {
        return SOLUTION_MEASURE_NONE;
    }
    if (space_word.bytes == 0) {
        *time = measure_unlabel(text, time_word);
        return SOLUTION_MEASURE_TIME;
    }
    if (time_word.bytes == 0) {
        *space = measure_unlabel(text, space_word);
        return SOLUTION_MEASURE_SPACE;
    }
    if (time_word.at < space_word.at) {
        measure_split_both(text, time_word, space_word, time, space);
    } else {
        measure_split_both(text, space_word, time_word, space, time);
    }
    return SOLUTION_MEASURE_BOTH;
}

/* Whether a word is a label here: an order follows at once. */
static bool measure_is_label(struct solution_span text, struct solution_span word) {
    struct solution_span rest = measure_from(text, word.at + word.bytes);
    static const char *const signs[] = {"$O", "$\\", "`O", "\\(", "O(", "O（", "Ｏ（", "Θ("};
    measure_trim(&rest);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (measure_cut_front(&rest, signs[i])) {
            return true;
        }
    }
    return false;
}

bool solution_measure_find_other(const char *line, size_t line_bytes, bool is_time, size_t *bytes,
                                 struct solution_span *rest) {
    struct solution_span text = {line, line_bytes};
    struct solution_span word = is_time ? measure_find_space(text, 0) : measure_find_time(text, 0);
    if (word.bytes == 0 || !measure_is_label(text, word)) {
        return false;
    }
    struct solution_span own = measure_until(text, word.at);
    if (!solution_measure_has_order(own.at, own.bytes)) {
        return false;
    }
    measure_trim(&own);
    *bytes = (size_t)(own.at + own.bytes - line);
    *rest = measure_from(text, word.at + word.bytes);
    measure_trim(rest);
    return true;
}
