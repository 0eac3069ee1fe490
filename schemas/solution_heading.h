/* A heading of an answer: a line that says which section of a solution begins.
 *
 * Recognised in the forms that models write: `## Name`, `**Name**`, `1. Name`, `一、Name`, `【Name】`,
 * `Name: text`, `- **Name**: text` and what these make together, in any case and width, and only
 * for names of the table in solution_name.c: every other heading is text like any other. Pure
 * functions; any thread; no memory. Refuses to know fences: the caller asks only about lines
 * outside them. */
#ifndef SOLFLEET_SCHEMAS_SOLUTION_HEADING_H
#define SOLFLEET_SCHEMAS_SOLUTION_HEADING_H

#include <stdbool.h>
#include <stddef.h>

#include "schemas/solution_name.h"

/* How sure it is that a line of this form is no part of a list or a sentence. */
enum solution_form {
    SOLUTION_FORM_ITEM,  /* numbered, or a bullet */
    SOLUTION_FORM_LABEL, /* `Name:` */
    SOLUTION_FORM_TITLE  /* `#`, bold or in brackets */
};

struct solution_heading {
    enum solution_section section;
    enum solution_form form;
    bool is_loose;    /* a name that also heads a part of its section: `Approach 2`, `Algorithm` */
    const char *rest; /* of the line, after the heading; [rest_bytes] */
    size_t rest_bytes;
};

/* The line comes without its line break. False: it is no heading of ours. */
bool solution_heading_read(const char *line, size_t line_bytes, struct solution_heading *out);

#endif
