#include "engine/quote.h"

#include <string.h>

struct quote quote_of(const char *data, size_t bytes) {
    struct quote quote;
    const size_t shown = bytes < QUOTE_SHOWN_BYTES ? bytes : QUOTE_SHOWN_BYTES;
    for (size_t i = 0; i < shown; i++) {
        const char c = data[i];
        const int is_break = c == '\n' || c == '\r' || c == '\t';
        quote.text[i] = is_break ? ' ' : (c >= ' ' && c <= '~') ? c : '?';
    }
    memcpy(quote.text + shown, "...", sizeof "...");
    if (bytes == shown) {
        quote.text[shown] = '\0';
    }
    return quote;
}
