#ifndef SOLFLEET_ENGINE_TOKENIZER_H
#define SOLFLEET_ENGINE_TOKENIZER_H

/* A tokenizer: the vocabulary of one model, turning text into token ids and ids into bytes.
 *
 * Threads: immutable after open, so any number of threads may use one at the same time.
 * Memory: open copies what it keeps; encode allocates 28 bytes for each byte of the longest word,
 * once it is known that the text may fit the caller's buffer, and frees them before it returns.
 * Refuses to know: where a vocabulary comes from (the caller fills a tokenizer_spec), and chats.
 *
 * User text never becomes a control token: encode has no way to produce one. A control token gets
 * into a prompt only by its id, which is the business of engine/chat_template. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKENIZER_VOCABULARY_MAX = 1 << 20, /* tokens; the largest published ones have 2^18 */
    TOKENIZER_MERGES_MAX = 1 << 21,
    TOKENIZER_TOKEN_BYTES_MAX = 1024,    /* of one token's text; real ones stay below 200 */
    TOKENIZER_TEXT_BYTES_MAX = 16 << 20, /* of one encode; a longer text is TEXT_TOO_LONG */
    TOKENIZER_END_IDS_MAX = 16,
};

/* No token: for ids that a model does not have. */
#define TOKENIZER_NO_ID UINT32_MAX

/* Of everything in the engine that turns text into tokens or back. */
enum text_status {
    TEXT_OK = 0,
    TEXT_TOO_LONG,    /* the caller's bound was met: tell the client */
    TEXT_NO_MEMORY,   /* try later, or close */
    TEXT_UNSUPPORTED, /* a tokenizer or template of a kind that we do not have: refuse the model */
    TEXT_BAD,         /* the input contradicts itself: refuse the model, or the job */
};

/* The caller's array of ids. A function that fails leaves count as it was. */
struct token_buffer {
    uint32_t *ids; /* [capacity] */
    size_t count;
    size_t capacity;
};

/* Bytes that somebody else owns; not terminated. */
struct text_span {
    const char *data;
    size_t bytes;
};

/* As GGUF numbers them in tokenizer.ggml.token_type. */
enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4, /* found whole in text, before anything else is looked for */
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

/* What a model file says about its vocabulary. Borrowed until tokenizer_open returns. Ids that the
 * file does not name are TOKENIZER_NO_ID: start from tokenizer_spec_empty(). */
struct tokenizer_spec {
    struct text_span model;         /* tokenizer.ggml.model: "gpt2" is byte-level BPE */
    struct text_span pre_tokenizer; /* tokenizer.ggml.pre: "smollm", "gpt-2", "default", … */

    const struct text_span *tokens; /* [vocabulary_count], as they stand in the file */
    const int32_t *types;           /* [vocabulary_count], or NULL: all are normal */
    size_t vocabulary_count;

    const struct text_span *merges; /* [merge_count] "left right", best first */
    size_t merge_count;

    uint32_t bos_id;
    uint32_t eos_id;
    uint32_t eot_id;
    uint32_t eom_id;
    uint32_t unknown_id;
    uint32_t padding_id;
    const uint32_t *end_ids; /* [end_count] further ids that end an answer; NULL if none */
    size_t end_count;
    bool add_bos; /* tokenizer.ggml.add_bos_token */
};

struct tokenizer;

struct tokenizer_spec tokenizer_spec_empty(void);

/* On OK *out is the caller's, to be closed. UNSUPPORTED names what is not supported (the model,
 * the pre-tokenizer), BAD the token or merge at fault. */
__attribute__((warn_unused_result)) enum text_status
tokenizer_open(const struct tokenizer_spec *spec, struct tokenizer **out, char *err,
               size_t err_bytes);

/* Accepts NULL. */
void tokenizer_close(struct tokenizer *tokenizer);

/* Appends the ids of a text. Never adds a BOS, never produces a control token. Any bytes are
 * accepted, also such that are no UTF-8, and come back unchanged from the tokens' bytes, except
 * those that the vocabulary has no token for: they are left out, as in the reference (SmolLM2 lacks
 * six control characters and the bytes that UTF-8 does not use). Time is n·log n in the bytes.
 * OK, TOO_LONG or NO_MEMORY. */
__attribute__((warn_unused_result)) enum text_status
tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                 struct token_buffer *out);

/* The bytes of a text that the vocabulary has a token for, and that so come back. */
size_t tokenizer_encodable_bytes(const struct tokenizer *tokenizer, const char *text, size_t bytes);

size_t tokenizer_vocabulary_count(const struct tokenizer *tokenizer);

/* The bytes that a token stands for, not terminated: of a control token its name, of an unused one
 * none. Lives as long as the tokenizer. The id must be below the vocabulary count. */
struct text_span tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id);

/* The most bytes that one token stands for. */
size_t tokenizer_token_bytes_max(const struct tokenizer *tokenizer);

/* Control, unknown and unused tokens: those that stand for no text. */
bool tokenizer_is_control(const struct tokenizer *tokenizer, uint32_t id);

/* Whether a token ends an answer: EOS, EOT and EOM of the file, its further end ids, and the
 * control tokens <|im_end|> and <|endoftext|> where the vocabulary has them. */
bool tokenizer_is_end(const struct tokenizer *tokenizer, uint32_t id);

/* The id of a control token by its name, or TOKENIZER_NO_ID. */
uint32_t tokenizer_find_control(const struct tokenizer *tokenizer, const char *name);

/* The token to put before a raw text, or TOKENIZER_NO_ID where the model wants none. Not for a
 * chat: a template says itself whether there is one, and two would be wrong. */
uint32_t tokenizer_bos_id(const struct tokenizer *tokenizer);

#endif
