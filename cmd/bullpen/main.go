// Bullpen runs tasks in warm, isolated worker processes: streams of them by bullpen
// map, durable jobs by the daemon bullpen serve and the commands that talk to it.
// bullpen doctor tells what the machine can do.
package main

import (
	"os"
	_ "time/tzdata" // the zones of schedules: containers often have no files of them

	"github.com/bullpen-run/bullpen/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
