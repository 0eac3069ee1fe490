/* The text side of a checkpoint: its tokenizer and chat template, from the metadata.
 *
 * One thread; what it opens is the caller's. Refuses to know weights and devices. */
#ifndef SOLFLEET_ENGINE_MODEL_TEXT_H
#define SOLFLEET_ENGINE_MODEL_TEXT_H

#include "engine/gguf.h"
#include "engine/model.h"

/* Opens the tokenizer of the file, which must have `vocabulary` tokens, and recognises its chat
 * template (*chat is left with kind CHAT_TEMPLATE_NONE when the file has none). On an error err
 * names the key at fault and nothing is open. */
enum model_status model_text_open(const struct gguf *gguf, uint32_t vocabulary,
                                  struct tokenizer **tokenizer, struct chat_template *chat,
                                  char *err, size_t err_bytes) __attribute__((warn_unused_result));

/* general.name cut to the buffer at a code point; the name of the file at `path` where the metadata
 * has none, or one that is no text. */
void model_text_name(const struct gguf *gguf, const char *path, char *name, size_t name_bytes);

#endif
