// Command onetask runs one task in a process of its own, as xargs and GNU
// parallel start it: "null ARG" does nothing with its argument, "hash FILE"
// prints base64 of the SHA-512 of a file.
package main

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: onetask null ARG | hash FILE")
		os.Exit(2)
	}
	line := "\n"
	if os.Args[1] == "hash" {
		payload, err := os.ReadFile(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, "onetask:", err)
			os.Exit(1)
		}
		sum := sha512.Sum512(payload)
		line = base64.StdEncoding.EncodeToString(sum[:]) + "\n"
	}
	if _, err := os.Stdout.WriteString(line); err != nil {
		os.Exit(1)
	}
}
