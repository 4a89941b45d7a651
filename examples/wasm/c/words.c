// Counts the lines, words and bytes of its input, as a task of package wasm:
//
//	clang -O2 -Wl,--strip-all --target=wasm32-wasi -o words-c.wasm words.c
#include <ctype.h>
#include <stdio.h>

int main(void) {
    long lines = 0, words = 0, bytes = 0;
    int inside = 0;
    for (int c; (c = getchar()) != EOF; bytes++) {
        lines += c == '\n';
        words += !isspace(c) && !inside;
        inside = !isspace(c);
    }
    if (ferror(stdin)) {
        perror("stdin");
        return 1;
    }
    printf("%ld %ld %ld\n", lines, words, bytes);
    return 0;
}
