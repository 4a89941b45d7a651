// Bullpen runs streams of tasks through warm, isolated worker processes: bullpen
// map is its main command, bullpen doctor tells what the machine can do.
package main

import (
	"os"

	"github.com/bullpen-run/bullpen/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
