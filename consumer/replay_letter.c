#include "consumer/replay_letter.h"

#include <string.h>

#include "schemas/dead_letter.h"

#define CODE_BYTES_MAX 64

static const char *const replay_letter_names[] = {
    DEAD_LETTER_HEADER_CODE,    DEAD_LETTER_HEADER_FIELD,     DEAD_LETTER_HEADER_MESSAGE,
    DEAD_LETTER_HEADER_TOPIC,   DEAD_LETTER_HEADER_PARTITION, DEAD_LETTER_HEADER_OFFSET,
    DEAD_LETTER_HEADER_ATTEMPT, DEAD_LETTER_HEADER_SHA256,    DEAD_LETTER_HEADER_BYTES};

static bool replay_letter_is_ours(const char *name) {
    for (size_t i = 0; i < sizeof replay_letter_names / sizeof replay_letter_names[0]; i++) {
        if (strcmp(replay_letter_names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void replay_letter_take_code(struct replay_letter *letter,
                                    const struct record_header *header) {
    char name[CODE_BYTES_MAX];
    if (header->value != NULL && header->value_bytes < sizeof name) {
        memcpy(name, header->value, header->value_bytes);
        name[header->value_bytes] = '\0';
        if (!error_code_parse(name, &letter->code)) {
            letter->code = ERROR_INTERNAL; /* of a later version: a letter all the same */
        }
    }
}

static void replay_letter_take(struct replay_letter *letter, const struct record_header *header) {
    if (strcmp(header->name, DEAD_LETTER_HEADER_CODE) == 0) {
        replay_letter_take_code(letter, header);
    } else if (strcmp(header->name, DEAD_LETTER_HEADER_TOPIC) == 0) {
        letter->topic = *header;
    } else if (strcmp(header->name, DEAD_LETTER_HEADER_BYTES) == 0) {
        letter->value_left_out = true;
        letter->left_out_bytes = *header;
    }
}

static void replay_letter_take_id(struct replay_letter *letter, const struct record *record) {
    if (!letter->value_left_out && job_read_request_id(record->value, record->value_bytes,
                                                       record->value_bytes, letter->request_id)) {
        return;
    }
    letter->request_id[0] = '\0';
    if (record->key != NULL && job_request_id_is_valid(record->key, record->key_bytes)) {
        memcpy(letter->request_id, record->key, record->key_bytes);
        letter->request_id[record->key_bytes] = '\0';
    }
}

bool replay_letter_read(struct replay_letter *letter, const struct record *record,
                        struct record_header *headers, size_t count) {
    *letter = (struct replay_letter){0};
    for (size_t i = 0; i < count; i++) {
        if (replay_letter_is_ours(headers[i].name)) {
            replay_letter_take(letter, &headers[i]);
        } else {
            headers[letter->header_count++] = headers[i];
        }
    }
    uint8_t digest[SHA256_BYTES];
    if (!sha256_of(record->value, record->value_bytes, digest)) {
        return false;
    }
    sha256_hex(digest, letter->fingerprint);
    replay_letter_take_id(letter, record);
    return true;
}

bool replay_letter_is_of(const struct replay_letter *letter, const char *topic) {
    return letter->topic.value_bytes == strlen(topic) &&
           memcmp(letter->topic.value, topic, letter->topic.value_bytes) == 0;
}
