// Noop is the worker of the cells of Bullpen's queue: noop does nothing, and stamp
// gives the machine's monotonic clock at the start of its handler, which all
// processes of the machine share.
package main

import (
	"context"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/worker"
)

func main() {
	worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"noop": noop, "stamp": stamp}})
}

func noop(context.Context, bullpen.Task) ([]byte, error) { return nil, nil }

func stamp(context.Context, bullpen.Task) ([]byte, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return nil, err
	}
	return strconv.AppendInt(nil, t.Nano(), 10), nil
}
