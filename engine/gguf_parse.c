#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gguf_internal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read as they lie");

const uint8_t gguf_parse_type_bytes[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2,  [GGUF_I16] = 2,    [GGUF_U32] = 4,
    [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_STRING] = 0, [GGUF_ARRAY] = 0,
    [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

const char *const gguf_parse_type_names[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = "u8",         [GGUF_I8] = "i8",       [GGUF_U16] = "u16", [GGUF_I16] = "i16",
    [GGUF_U32] = "u32",       [GGUF_I32] = "i32",     [GGUF_F32] = "f32", [GGUF_BOOL] = "bool",
    [GGUF_STRING] = "string", [GGUF_ARRAY] = "array", [GGUF_U64] = "u64", [GGUF_I64] = "i64",
    [GGUF_F64] = "f64",
};

/* Reads forward; `what` names the thing being read, for the message when the file ends in it. */
struct gguf_cursor {
    const uint8_t *at, *end;
    char *err;
    size_t err_bytes;
    char what[GGUF_NAME_BYTES_MAX + 32];
};

static bool gguf_fail(struct gguf_cursor *cursor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Always false, so that a check can return it. */
static bool gguf_fail(struct gguf_cursor *cursor, const char *format, ...) {
    va_list arguments;
    int used = snprintf(cursor->err, cursor->err_bytes, "%s: ", cursor->what);
    if (used >= 0 && (size_t)used < cursor->err_bytes) {
        va_start(arguments, format);
        vsnprintf(cursor->err + used, cursor->err_bytes - (size_t)used, format, arguments);
        va_end(arguments);
    }
    return false;
}

static size_t gguf_left(const struct gguf_cursor *cursor) {
    return (size_t)(cursor->end - cursor->at);
}

static bool gguf_take(struct gguf_cursor *cursor, uint64_t bytes, const uint8_t **out) {
    if (bytes > gguf_left(cursor)) {
        gguf_fail(cursor, "needs %llu bytes, the file has %zu left", (unsigned long long)bytes,
                  gguf_left(cursor));
        return false;
    }
    *out = cursor->at;
    cursor->at += bytes;
    return true;
}

static bool gguf_take_u32(struct gguf_cursor *cursor, uint32_t *out) {
    const uint8_t *at;
    if (!gguf_take(cursor, sizeof *out, &at)) {
        return false;
    }
    memcpy(out, at, sizeof *out);
    return true;
}

static bool gguf_take_u64(struct gguf_cursor *cursor, uint64_t *out) {
    const uint8_t *at;
    if (!gguf_take(cursor, sizeof *out, &at)) {
        return false;
    }
    memcpy(out, at, sizeof *out);
    return true;
}

static bool gguf_take_string(struct gguf_cursor *cursor, struct gguf_string *out) {
    uint64_t bytes;
    const uint8_t *at;
    if (!gguf_take_u64(cursor, &bytes) || !gguf_take(cursor, bytes, &at)) {
        return false;
    }
    *out = (struct gguf_string){(const char *)at, (size_t)bytes};
    return true;
}

/* The name of a key or tensor: printable ASCII, so that messages can show it. */
static bool gguf_take_name(struct gguf_cursor *cursor, const char *kind, struct gguf_string *out) {
    if (!gguf_take_string(cursor, out)) {
        return false;
    }
    if (out->bytes == 0 || out->bytes > GGUF_NAME_BYTES_MAX) {
        return gguf_fail(cursor, "a name of %zu bytes (1 to %d are allowed)", out->bytes,
                         GGUF_NAME_BYTES_MAX);
    }
    for (size_t i = 0; i < out->bytes; i++) {
        unsigned char byte = (unsigned char)out->data[i];
        if (byte <= 0x20 || byte >= 0x7F) {
            return gguf_fail(cursor, "its name holds the byte 0x%02x", byte);
        }
    }
    snprintf(cursor->what, sizeof cursor->what, "%s %.*s", kind, (int)out->bytes, out->data);
    return true;
}

/* ---------------------------------------------------------------- metadata */

static bool gguf_take_type(struct gguf_cursor *cursor, enum gguf_type *out) {
    uint32_t type;
    if (!gguf_take_u32(cursor, &type)) {
        return false;
    }
    if (type >= GGUF_TYPE_COUNT) {
        return gguf_fail(cursor, "value type %u is unknown", type);
    }
    *out = (enum gguf_type)type;
    return true;
}

static bool gguf_take_array(struct gguf_cursor *cursor, uint32_t depth, struct gguf_array *out);

/* Walks over the elements of an array whose type and count are known. */
static bool gguf_skip_elements(struct gguf_cursor *cursor, uint32_t depth, enum gguf_type type,
                               uint64_t count) {
    uint64_t element_bytes = gguf_parse_type_bytes[type];
    if (element_bytes > 0) {
        const uint8_t *ignored;
        if (count > gguf_left(cursor) / element_bytes) {
            return gguf_fail(cursor, "an array of %llu %s, the file has %zu bytes left",
                             (unsigned long long)count, gguf_parse_type_names[type],
                             gguf_left(cursor));
        }
        return gguf_take(cursor, count * element_bytes, &ignored);
    }
    /* Each element takes bytes of the file, so the file's size bounds this loop. */
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_string text;
        struct gguf_array inner;
        if (type == GGUF_STRING ? !gguf_take_string(cursor, &text)
                                : !gguf_take_array(cursor, depth + 1, &inner)) {
            return false;
        }
    }
    return true;
}

static bool gguf_take_array(struct gguf_cursor *cursor, uint32_t depth, struct gguf_array *out) {
    uint64_t count;
    if (depth > GGUF_NESTING_MAX) {
        return gguf_fail(cursor, "arrays nested more than %d deep", GGUF_NESTING_MAX);
    }
    if (!gguf_take_type(cursor, &out->type) || !gguf_take_u64(cursor, &count)) {
        return false;
    }
    out->data = cursor->at;
    if (!gguf_skip_elements(cursor, depth, out->type, count)) {
        return false;
    }
    out->count = (size_t)count;
    out->bytes = (size_t)(cursor->at - out->data);
    return true;
}

static bool gguf_take_entry(struct gguf_cursor *cursor, struct gguf_entry *entry) {
    if (!gguf_take_name(cursor, "key", &entry->key) || !gguf_take_type(cursor, &entry->type)) {
        return false;
    }
    entry->value = cursor->at;
    if (entry->type == GGUF_STRING) {
        return gguf_take_string(cursor, &entry->text);
    }
    if (entry->type == GGUF_ARRAY) {
        return gguf_take_array(cursor, 1, &entry->array);
    }
    if (!gguf_take(cursor, gguf_parse_type_bytes[entry->type], &entry->value)) {
        return false;
    }
    if (entry->type == GGUF_BOOL && entry->value[0] > 1) {
        return gguf_fail(cursor, "a bool of value %u", entry->value[0]);
    }
    return true;
}

/* ---------------------------------------------------------------- tensors */

/* Bytes of a tensor from its dims and format, every product checked. */
static bool gguf_measure_tensor(struct gguf_cursor *cursor, struct gguf_tensor *tensor) {
    uint64_t blocks, bytes;
    const struct block_format *format = tensor->format;
    if (tensor->dims[0] % format->elements != 0) {
        return gguf_fail(cursor, "rows of %llu elements are no whole number of %s blocks of %u",
                         (unsigned long long)tensor->dims[0], format->name, format->elements);
    }
    blocks = tensor->dims[0] / format->elements;
    for (uint32_t i = 1; i < GGUF_RANK_MAX; i++) {
        if (__builtin_mul_overflow(blocks, tensor->dims[i], &blocks)) {
            return gguf_fail(cursor, "its dimensions overflow");
        }
    }
    if (__builtin_mul_overflow(blocks, (uint64_t)format->bytes, &bytes) || bytes > SIZE_MAX / 2) {
        return gguf_fail(cursor, "its size overflows");
    }
    tensor->bytes = (size_t)bytes;
    return true;
}

/* A tensor's description; *offset counts from the start of the data section. */
static bool gguf_take_tensor(struct gguf_cursor *cursor, struct gguf_tensor *tensor,
                             uint64_t *offset) {
    uint32_t format;
    if (!gguf_take_name(cursor, "tensor", &tensor->name) || !gguf_take_u32(cursor, &tensor->rank)) {
        return false;
    }
    if (tensor->rank < 1 || tensor->rank > GGUF_RANK_MAX) {
        return gguf_fail(cursor, "%u dimensions (1 to %d are allowed)", tensor->rank,
                         GGUF_RANK_MAX);
    }
    for (uint32_t i = 0; i < GGUF_RANK_MAX; i++) {
        tensor->dims[i] = 1;
        if (i < tensor->rank && !gguf_take_u64(cursor, &tensor->dims[i])) {
            return false;
        }
        if (tensor->dims[i] == 0) {
            return gguf_fail(cursor, "dimension %u is 0", i);
        }
    }
    if (!gguf_take_u32(cursor, &format) || !gguf_take_u64(cursor, offset)) {
        return false;
    }
    tensor->format = block_format_find(format);
    if (tensor->format == NULL) {
        return gguf_fail(cursor, "type %u is unknown", format);
    }
    return gguf_measure_tensor(cursor, tensor);
}

/* Turns the offset of tensor `index` into a pointer, once the data section is known. */
static bool gguf_place_tensor(struct gguf_cursor *cursor, struct gguf_tensor *tensor,
                              uint64_t offset, uint32_t alignment) {
    snprintf(cursor->what, sizeof cursor->what, "tensor %.*s", (int)tensor->name.bytes,
             tensor->name.data);
    if (offset % alignment != 0) {
        return gguf_fail(cursor, "offset %llu is no multiple of the alignment %u",
                         (unsigned long long)offset, alignment);
    }
    if (offset > gguf_left(cursor) || tensor->bytes > gguf_left(cursor) - offset) {
        return gguf_fail(cursor, "bytes %llu to %llu of the data, which has %zu",
                         (unsigned long long)offset, (unsigned long long)(offset + tensor->bytes),
                         gguf_left(cursor));
    }
    tensor->data = cursor->at + offset;
    return true;
}

/* ---------------------------------------------------------------- orders */

int gguf_parse_compare(struct gguf_string a, struct gguf_string b) {
    size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static int gguf_compare_entries(const void *a, const void *b, void *context) {
    const struct gguf *gguf = context;
    return gguf_parse_compare(gguf->entries[*(const uint32_t *)a].key,
                              gguf->entries[*(const uint32_t *)b].key);
}

static int gguf_compare_tensors(const void *a, const void *b, void *context) {
    const struct gguf *gguf = context;
    return gguf_parse_compare(gguf->tensors[*(const uint32_t *)a].name,
                              gguf->tensors[*(const uint32_t *)b].name);
}

static int gguf_compare_places(const void *a, const void *b, void *context) {
    const struct gguf *gguf = context;
    const uint8_t *x = gguf->tensors[*(const uint32_t *)a].data;
    const uint8_t *y = gguf->tensors[*(const uint32_t *)b].data;
    return (x > y) - (x < y);
}

static void gguf_order(struct gguf *gguf, uint32_t *order, size_t count,
                       int (*compare)(const void *, const void *, void *)) {
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    qsort_r(order, count, sizeof *order, compare, gguf);
}

/* ---------------------------------------------------------------- the file */

struct gguf_header {
    uint32_t version;
    uint64_t tensor_count, entry_count;
};

static bool gguf_take_header(struct gguf_cursor *cursor, struct gguf_header *header) {
    const uint8_t *magic;
    if (!gguf_take(cursor, 4, &magic)) {
        return false;
    }
    if (memcmp(magic, "GGUF", 4) != 0) {
        return gguf_fail(cursor, "not a GGUF file (it begins %02x %02x %02x %02x)", magic[0],
                         magic[1], magic[2], magic[3]);
    }
    if (!gguf_take_u32(cursor, &header->version)) {
        return false;
    }
    if (header->version != 2 && header->version != 3) {
        return gguf_fail(cursor, "version %u (2 and 3, little endian, are supported)",
                         header->version);
    }
    if (!gguf_take_u64(cursor, &header->tensor_count) ||
        !gguf_take_u64(cursor, &header->entry_count)) {
        return false;
    }
    if (header->tensor_count > GGUF_TENSORS_MAX || header->entry_count > GGUF_KEYS_MAX) {
        return gguf_fail(cursor, "%llu tensors and %llu keys (at most %d and %d)",
                         (unsigned long long)header->tensor_count,
                         (unsigned long long)header->entry_count, GGUF_TENSORS_MAX, GGUF_KEYS_MAX);
    }
    return true;
}

static bool gguf_take_entries(struct gguf *gguf, struct gguf_cursor *cursor, size_t count) {
    for (size_t i = 0; i < count; i++) {
        snprintf(cursor->what, sizeof cursor->what, "key number %zu", i);
        if (!gguf_take_entry(cursor, &gguf->entries[i])) {
            return false;
        }
    }
    gguf->entry_count = count;
    gguf_order(gguf, gguf->entry_order, count, gguf_compare_entries);
    for (size_t i = 1; i < count; i++) {
        const struct gguf_entry *entry = &gguf->entries[gguf->entry_order[i]];
        if (gguf_compare_entries(&gguf->entry_order[i - 1], &gguf->entry_order[i], gguf) == 0) {
            snprintf(cursor->what, sizeof cursor->what, "key %.*s", (int)entry->key.bytes,
                     entry->key.data);
            return gguf_fail(cursor, "stands twice in the file");
        }
    }
    return true;
}

static bool gguf_take_alignment(const struct gguf *gguf, struct gguf_cursor *cursor,
                                uint32_t *alignment) {
    const char *key = "general.alignment";
    *alignment = 32;
    enum gguf_lookup lookup = gguf_get_u32(gguf, key, alignment);
    snprintf(cursor->what, sizeof cursor->what, "key %s", key);
    if (lookup == GGUF_WRONG_TYPE) {
        return gguf_fail(cursor, "an integer is expected, not %s", gguf_type_name(gguf, key));
    }
    if (lookup == GGUF_OUT_OF_RANGE || *alignment < 8 || *alignment > GGUF_ALIGNMENT_MAX ||
        (*alignment & (*alignment - 1)) != 0) {
        return gguf_fail(cursor, "a power of two from 8 to %d is expected", GGUF_ALIGNMENT_MAX);
    }
    return true;
}

/* Moves the cursor to the data section: the next multiple of the alignment. Without tensors there
 * is none, and the file may end before it. */
static bool gguf_find_data(const struct gguf *gguf, struct gguf_cursor *cursor, size_t count,
                           uint32_t alignment) {
    size_t padding = (size_t)(-(size_t)(cursor->at - gguf->bytes)) & (alignment - 1);
    const uint8_t *ignored;
    snprintf(cursor->what, sizeof cursor->what, "tensor data");
    return count == 0 || gguf_take(cursor, padding, &ignored);
}

static bool gguf_check_tensors(struct gguf *gguf, struct gguf_cursor *cursor, size_t count) {
    uint32_t *order = gguf->tensor_order;
    gguf_order(gguf, order, count, gguf_compare_places);
    for (size_t i = 1; i < count; i++) {
        const struct gguf_tensor *before = &gguf->tensors[order[i - 1]];
        const struct gguf_tensor *tensor = &gguf->tensors[order[i]];
        if (before->data + before->bytes > tensor->data) {
            snprintf(cursor->what, sizeof cursor->what, "tensor %.*s", (int)tensor->name.bytes,
                     tensor->name.data);
            return gguf_fail(cursor, "overlaps tensor %.*s", (int)before->name.bytes,
                             before->name.data);
        }
    }
    gguf_order(gguf, order, count, gguf_compare_tensors);
    for (size_t i = 1; i < count; i++) {
        const struct gguf_tensor *tensor = &gguf->tensors[order[i]];
        if (gguf_compare_tensors(&order[i - 1], &order[i], gguf) == 0) {
            snprintf(cursor->what, sizeof cursor->what, "tensor %.*s", (int)tensor->name.bytes,
                     tensor->name.data);
            return gguf_fail(cursor, "stands twice in the file");
        }
    }
    return true;
}

static bool gguf_take_tensors(struct gguf *gguf, struct gguf_cursor *cursor, size_t count,
                              uint64_t *offsets) {
    uint32_t alignment;
    if (!gguf_take_alignment(gguf, cursor, &alignment)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(cursor->what, sizeof cursor->what, "tensor number %zu", i);
        if (!gguf_take_tensor(cursor, &gguf->tensors[i], &offsets[i])) {
            return false;
        }
    }
    if (!gguf_find_data(gguf, cursor, count, alignment)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!gguf_place_tensor(cursor, &gguf->tensors[i], offsets[i], alignment)) {
            return false;
        }
    }
    gguf->tensor_count = count;
    return gguf_check_tensors(gguf, cursor, count);
}

enum gguf_status gguf_parse_file(struct gguf *gguf, char *err, size_t err_bytes) {
    struct gguf_cursor cursor = {
        .at = gguf->bytes, .end = gguf->bytes + gguf->size, .err = err, .err_bytes = err_bytes};
    struct gguf_header header = {0};
    snprintf(cursor.what, sizeof cursor.what, "header");
    if (!gguf_take_header(&cursor, &header)) {
        return GGUF_MALFORMED;
    }
    size_t entries = (size_t)header.entry_count, tensors = (size_t)header.tensor_count;
    gguf->entries = calloc(entries + 1, sizeof *gguf->entries);
    gguf->entry_order = calloc(entries + 1, sizeof *gguf->entry_order);
    gguf->tensors = calloc(tensors + 1, sizeof *gguf->tensors);
    gguf->tensor_order = calloc(tensors + 1, sizeof *gguf->tensor_order);
    uint64_t *offsets = calloc(tensors + 1, sizeof *offsets);
    enum gguf_status status = GGUF_MALFORMED;
    if (gguf->entries == NULL || gguf->entry_order == NULL || gguf->tensors == NULL ||
        gguf->tensor_order == NULL || offsets == NULL) {
        snprintf(err, err_bytes, "out of memory for %zu keys and %zu tensors", entries, tensors);
        status = GGUF_NO_MEMORY;
    } else if (gguf_take_entries(gguf, &cursor, entries) &&
               gguf_take_tensors(gguf, &cursor, tensors, offsets)) {
        status = GGUF_OK;
    }
    free(offsets);
    return status;
}
