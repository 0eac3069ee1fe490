# Makes C of the prompts: awk -f ops/dev/prompt_text.awk engine/prompts/*.txt >prompt_text.c
# A file NAME.txt becomes `const struct prompt_text prompt_text_NAME`. A line "=== FIELD" begins a field of
# that struct; the line break before the next field, or the end, is no part of it.

function finish_field() {
    if (field == "") return
    gsub(/"/, "\\\"", text)
    gsub(/\n/, "\\n\"\n        \"", text)
    printf "    .%s =\n        \"%s\",\n", field, text
    field = ""
}

function finish_file() {
    finish_field()
    if (name != "") print "};"
}

BEGIN { print "#include \"engine/prompt_text.h\"" }

FNR == 1 {
    finish_file()
    name = FILENAME
    sub(/.*\//, "", name)
    sub(/\.txt$/, "", name)
    printf "\nconst struct prompt_text prompt_text_%s = {\n", name
}

/\\/ {
    print FILENAME ":" FNR ": a backslash has no meaning here" >"/dev/stderr"
    exit 1
}

/^=== / {
    finish_field()
    field = $2
    text = ""
    lines = 0
    next
}

{ text = lines++ ? text "\n" $0 : $0 }

END { finish_file() }
