#ifndef SOLFLEET_ENGINE_UNICODE_H
#define SOLFLEET_ENGINE_UNICODE_H

/* The class of a code point, as the regular expressions of tokenizers divide them.
 *
 * Pure; any thread. The four classes are disjoint and cover everything. Unicode 16.0; refuses to
 * know case, scripts and normal forms. */

#include <stdint.h>

enum unicode_class {
    UNICODE_OTHER,  /* marks, punctuation, symbols, controls, and what is not assigned */
    UNICODE_LETTER, /* \p{L} */
    UNICODE_NUMBER, /* \p{N}: digits of every script, letter numbers, fractions */
    UNICODE_SPACE,  /* \s: the property White_Space */
};

enum unicode_class unicode_class_of(uint32_t code_point);

#endif
