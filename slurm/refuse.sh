# For the scripts beside it.
refuse() { # says what is wrong and the next step, and ends the script with the status of a wrong word
    printf '%s\n' "$@" >&2
    exit 4
}
