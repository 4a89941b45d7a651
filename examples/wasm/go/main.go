// Command go counts the lines, words and bytes of its input, as a task of package wasm:
//
//	GOOS=wasip1 GOARCH=wasm go build -o words-go.wasm ./examples/wasm/go
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d %d %d\n", bytes.Count(text, []byte("\n")), len(bytes.Fields(text)), len(text))
}
