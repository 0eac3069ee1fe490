#include "schemas/dead_letter.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "schemas/sha256.h"

enum text_slot { TEXT_PARTITION, TEXT_OFFSET, TEXT_ATTEMPT, TEXT_SHA256, TEXT_BYTES };

static void add(struct dead_letter_headers *headers, const char *name, const char *value) {
    assert(headers->count < DEAD_LETTER_HEADERS_MAX);
    headers->list[headers->count++] = (struct dead_letter_header){name, value};
}

static void add_number(struct dead_letter_headers *headers, const char *name, enum text_slot slot,
                       int64_t number) {
    snprintf(headers->text[slot], sizeof headers->text[slot], "%" PRId64, number);
    add(headers, name, headers->text[slot]);
}

static bool add_digest(struct dead_letter_headers *headers, const struct dead_letter *letter) {
    uint8_t digest[SHA256_BYTES];
    static_assert(sizeof headers->text[TEXT_SHA256] >= SHA256_HEX_BYTES, "a digest must fit");
    if (!sha256_of(letter->value, letter->value_bytes, digest)) {
        return false;
    }
    sha256_hex(digest, headers->text[TEXT_SHA256]);
    add(headers, DEAD_LETTER_HEADER_SHA256, headers->text[TEXT_SHA256]);
    add_number(headers, DEAD_LETTER_HEADER_BYTES, TEXT_BYTES, (int64_t)letter->value_bytes);
    return true;
}

bool dead_letter_write_headers(const struct dead_letter *letter,
                               struct dead_letter_headers *headers) {
    assert(letter->error->code != ERROR_NONE);
    *headers = (struct dead_letter_headers){0};
    add(headers, DEAD_LETTER_HEADER_CODE, error_code_name(letter->error->code));
    if (letter->error->field[0] != '\0') {
        add(headers, DEAD_LETTER_HEADER_FIELD, letter->error->field);
    }
    add(headers, DEAD_LETTER_HEADER_MESSAGE, letter->error->message);
    add(headers, DEAD_LETTER_HEADER_TOPIC, letter->topic);
    add_number(headers, DEAD_LETTER_HEADER_PARTITION, TEXT_PARTITION, letter->partition);
    add_number(headers, DEAD_LETTER_HEADER_OFFSET, TEXT_OFFSET, letter->offset);
    add_number(headers, DEAD_LETTER_HEADER_ATTEMPT, TEXT_ATTEMPT, letter->attempt);
    return !letter->value_left_out || add_digest(headers, letter);
}
