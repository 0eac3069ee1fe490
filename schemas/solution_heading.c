#include "schemas/solution_heading.h"

#include <stdint.h>
#include <string.h>

#include "schemas/utf8.h"

#define HEADING_ASIDE_BYTES_MAX 96 /* of a remark in parentheses after a name */

struct heading_reader {
    const char *at, *end;
    bool has_hash, has_bold, has_bracket, has_number, has_bullet;
    bool is_item; /* the number or the bullet came first */
    bool closed_bold, closed_bracket, has_colon;
    char key[SOLUTION_NAME_BYTES_MAX];
    size_t key_bytes;
};

/* The code point at a place, as names are folded; 0 at the end. */
static uint32_t heading_look_at(const struct heading_reader *reader, const char *at,
                                size_t *bytes) {
    *bytes = 0;
    if (at >= reader->end) {
        return 0;
    }
    struct utf8_step step = utf8_next(at, (size_t)(reader->end - at));
    uint32_t code = step.code_point;
    *bytes = step.bytes;
    if (code >= 0xFF01 && code <= 0xFF5E) {
        code -= 0xFEE0; /* full width */
    }
    if (code == 0x3000 || code == 0xA0 || code == '\t') {
        code = ' ';
    }
    return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
}

static uint32_t heading_look(const struct heading_reader *reader, size_t *bytes) {
    return heading_look_at(reader, reader->at, bytes);
}

/* Takes a code point if it is the one. */
static bool heading_take(struct heading_reader *reader, uint32_t code) {
    size_t bytes = 0;
    bool is_it = heading_look(reader, &bytes) == code;
    reader->at += is_it ? bytes : 0;
    return is_it;
}

/* Takes two or more of `mark`. */
static bool heading_take_bold(struct heading_reader *reader) {
    size_t bytes = 0, next = 0;
    uint32_t mark = heading_look(reader, &bytes);
    if ((mark != '*' && mark != '_') ||
        heading_look_at(reader, reader->at + bytes, &next) != mark) {
        return false;
    }
    while (heading_take(reader, mark)) {
    }
    return true;
}

static bool heading_is_picture(uint32_t code) {
    return (code >= 0x2190 && code <= 0x23FF) || (code >= 0x25A0 && code <= 0x27BF) ||
           (code >= 0x1F000 && code <= 0x1FAFF) || code == 0xFE0F || code == 0x2B50 ||
           code == 0x200D;
}

static bool heading_is_numeral(uint32_t code) {
    static const uint32_t numerals[] = {0x4E00, 0x4E8C, 0x4E09, 0x56DB, 0x4E94,
                                        0x516D, 0x4E03, 0x516B, 0x4E5D, 0x5341};
    for (size_t i = 0; i < sizeof numerals / sizeof numerals[0]; i++) {
        if (code == numerals[i]) {
            return true;
        }
    }
    return code >= '0' && code <= '9';
}

/* `1.` `2)` `(3)` `一、` `（二）` `①`, or with a `#` before it just `1 `. */
static bool heading_take_number(struct heading_reader *reader) {
    const char *from = reader->at;
    size_t bytes = 0;
    uint32_t code = heading_look(reader, &bytes);
    if (code >= 0x2460 && code <= 0x2473) {
        reader->at += bytes;
        return true;
    }
    bool is_wrapped = heading_take(reader, '(');
    uint32_t count = 0;
    while (count < 3 && heading_is_numeral(heading_look(reader, &bytes))) {
        reader->at += bytes;
        count++;
    }
    (void)heading_take(reader, 0xFE0F);
    bool ended = heading_take(reader, 0x20E3) || heading_take(reader, ')');
    if (!ended && !is_wrapped) {
        ended = heading_take(reader, 0x3001) || heading_take(reader, '.') ||
                (reader->has_hash && heading_take(reader, ' '));
    }
    if (count == 0 || !ended) {
        reader->at = from;
        return false;
    }
    return true;
}

static bool heading_take_bullet(struct heading_reader *reader) {
    size_t bytes = 0, next = 0;
    uint32_t code = heading_look(reader, &bytes);
    bool is_bullet = code == '-' || code == '*' || code == '+' || code == 0x2022 || code == 0xB7;
    if (!is_bullet || (code < 0x80 && heading_look_at(reader, reader->at + bytes, &next) != ' ')) {
        return false;
    }
    reader->at += bytes;
    return true;
}

/* One mark before a name. */
static bool heading_take_opening(struct heading_reader *reader) {
    size_t bytes = 0;
    uint32_t code = heading_look(reader, &bytes);
    if (code == ' ' || heading_is_picture(code)) {
        reader->at += bytes;
        return true;
    }
    if (code == '#' && !reader->has_bold && !reader->has_bracket) {
        reader->at += bytes;
        reader->has_hash = true;
        return true;
    }
    if (code == 0x3010 || code == 0x3016) {
        reader->at += bytes;
        reader->has_bracket = true;
        return true;
    }
    if (heading_take_bold(reader)) {
        reader->has_bold = true;
        return true;
    }
    if (!reader->has_bullet && !reader->has_hash && heading_take_bullet(reader)) {
        reader->has_bullet = true;
        reader->is_item = !reader->has_bold && !reader->has_bracket;
        return true;
    }
    if (!reader->has_number && heading_take_number(reader)) {
        reader->has_number = true;
        reader->is_item |= !reader->has_bold && !reader->has_bracket && !reader->has_hash;
        return true;
    }
    return false;
}

/* A remark in parentheses. False when it does not end soon. */
static bool heading_skip_aside(struct heading_reader *reader) {
    const char *until = reader->at + HEADING_ASIDE_BYTES_MAX;
    size_t bytes = 0;
    while (reader->at < until) {
        uint32_t code = heading_look(reader, &bytes);
        if (code == 0) {
            return false;
        }
        reader->at += bytes;
        if (code == ')') {
            return true;
        }
    }
    return false;
}

static bool heading_put(struct heading_reader *reader, uint32_t code, size_t bytes) {
    size_t put_bytes = code < 0x80 ? 1 : bytes; /* what is folded becomes ASCII */
    if (reader->key_bytes + put_bytes > sizeof reader->key) {
        return false;
    }
    if (code < 0x80) {
        reader->key[reader->key_bytes] = (char)code;
    } else {
        memcpy(reader->key + reader->key_bytes, reader->at, bytes);
    }
    reader->key_bytes += put_bytes;
    return true;
}

/* Whether a name ends here: at a colon, the end of its marks, or a dash in a title. */
static bool heading_is_end(const struct heading_reader *reader, uint32_t code, size_t bytes) {
    size_t next = 0;
    uint32_t after = heading_look_at(reader, reader->at + bytes, &next);
    bool is_title = reader->has_hash || reader->has_bold;
    switch (code) {
    case 0:
    case ':':
    case 0x3011:
    case 0x3017: return true;
    case '#': return reader->has_hash;
    case '*':
    case '_': return after == code;
    case '-': return is_title && after == ' ' && reader->at[-1] == ' ';
    case 0x2013:
    case 0x2014: return is_title;
    default: return false;
    }
}

/* The name, up to its end. False: too long for one of ours. */
static bool heading_take_name(struct heading_reader *reader) {
    for (;;) {
        size_t bytes = 0;
        uint32_t code = heading_look(reader, &bytes);
        if (heading_is_end(reader, code, bytes)) {
            return reader->key_bytes > 0;
        }
        if (code == '(') {
            if (!heading_skip_aside(reader)) {
                return false;
            }
            continue;
        }
        bool counts = code != ' ' && code != '-' && code != '`' && code != '*' && code != '_' &&
                      !heading_is_picture(code);
        if (counts && !heading_put(reader, code, bytes)) {
            return false;
        }
        reader->at += bytes;
    }
}

/* What closes the marks, and the colon or dash. */
static void heading_take_closing(struct heading_reader *reader) {
    for (;;) {
        if (heading_take(reader, ' ') || (reader->has_hash && heading_take(reader, '#'))) {
            continue;
        }
        if (!reader->has_colon && (heading_take(reader, ':') || heading_take(reader, 0x2014) ||
                                   heading_take(reader, 0x2013) || heading_take(reader, '-'))) {
            reader->has_colon = true;
            (void)heading_take(reader, 0x2014); /* a Chinese dash is two */
            continue;
        }
        if (heading_take(reader, 0x3011) || heading_take(reader, 0x3017)) {
            reader->closed_bracket = true;
            continue;
        }
        if (reader->has_bold && !reader->closed_bold && heading_take_bold(reader)) {
            reader->closed_bold = true;
            continue;
        }
        return;
    }
}

/* Bold that goes on to the end of the line: its closing marks say nothing about the text. */
static void heading_trim_rest(const struct heading_reader *reader, struct solution_heading *out) {
    if (reader->has_bold && !reader->closed_bold && out->rest_bytes >= 2 &&
        (memcmp(out->rest + out->rest_bytes - 2, "**", 2) == 0 ||
         memcmp(out->rest + out->rest_bytes - 2, "__", 2) == 0)) {
        out->rest_bytes -= 2;
    }
}

/* Whether marks and what follows make the name a heading. */
static bool heading_is_formed(const struct heading_reader *reader,
                              const struct solution_heading *heading) {
    bool stands_alone = heading->rest_bytes == 0 || reader->has_colon;
    bool is_measure = heading->section == SOLUTION_TIME || heading->section == SOLUTION_SPACE;
    if (reader->has_hash || reader->has_bracket) {
        return reader->has_hash || reader->closed_bracket;
    }
    if (reader->has_bold) {
        return stands_alone || (is_measure && reader->closed_bold);
    }
    if (reader->has_bullet) { /* lists begin with names of all kinds */
        return is_measure && reader->has_colon;
    }
    return reader->has_number ? stands_alone : reader->has_colon;
}

bool solution_heading_read(const char *line, size_t line_bytes, struct solution_heading *out) {
    while (line_bytes > 0 && strchr(" \t\r", line[line_bytes - 1]) != NULL) {
        line_bytes--;
    }
    struct heading_reader reader = {.at = line, .end = line + line_bytes};
    while (heading_take_opening(&reader)) {
    }
    if (!heading_take_name(&reader)) {
        return false;
    }
    struct solution_name_match match = solution_name_match(reader.key, reader.key_bytes);
    if (match.section == SOLUTION_NONE) {
        return false;
    }
    heading_take_closing(&reader);
    *out = (struct solution_heading){.section = match.section,
                                     .is_loose = match.is_loose,
                                     .rest = reader.at,
                                     .rest_bytes = (size_t)(reader.end - reader.at)};
    heading_trim_rest(&reader, out);
    bool is_title = reader.has_hash || reader.has_bracket || reader.has_bold;
    out->form = reader.is_item ? SOLUTION_FORM_ITEM
                : is_title     ? SOLUTION_FORM_TITLE
                               : SOLUTION_FORM_LABEL;
    return heading_is_formed(&reader, out);
}
