/* The published examples of the wire contract, schemas/v1/examples/. */
#ifndef SOLFLEET_TESTS_SUPPORT_EXAMPLE_H
#define SOLFLEET_TESTS_SUPPORT_EXAMPLE_H

/* The text of one, without the newline at its end; fails the test if there is none. The caller
 * frees. Tests run in the root of the repository. */
char *example_read(const char *name);

#endif
