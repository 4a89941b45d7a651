// Rough is a worker with handlers that behave well and handlers that do not, for
// the measurement of what limits and sandboxes cost and what they keep off.
// With the argument -hello it writes one byte and ends instead: the least that a
// start of this program costs.
package main

import (
	"bytes"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/worker"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "-hello" {
		if _, err := os.Stdout.Write([]byte{'\n'}); err != nil {
			os.Exit(1)
		}
		return
	}
	worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{
		"null": null, "busy": busy, "spin": spin, "fork": fork, "swell": swell, "flood": flood,
	}})
}

func null(context.Context, bullpen.Task) ([]byte, error) { return nil, nil }

// busy uses as much time of a processor as the payload says, such as 1ms: beside
// other programs it takes longer by the clock.
func busy(_ context.Context, t bullpen.Task) ([]byte, error) {
	want, err := time.ParseDuration(string(t.Payload))
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, err := threadTime()
	block := make([]byte, 4<<10)
	for now := begin; err == nil && now-begin < want; now, err = threadTime() {
		sum := sha512.Sum512(block)
		copy(block, sum[:])
	}
	return nil, err
}

// threadTime is how long this thread has had a processor.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}

// spin keeps a processor busy for ever, whatever it is told.
func spin(context.Context, bullpen.Task) ([]byte, error) {
	block := make([]byte, 4<<10)
	for {
		sum := sha512.Sum512(block)
		copy(block, sum[:])
	}
}

// bomb is a shell whose processes start two of their own, for ever.
const bomb = "b() { b & b & wait; }; while :; do b; done"

// fork is a fork bomb.
func fork(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	for ctx.Err() == nil {
		cmd := exec.Command("sh", "-c", bomb)
		if err := cmd.Start(); err != nil {
			return nil, err // there is no room even for this one
		}
		_ = cmd.Wait() // it ends badly: that is what it is for
	}
	return nil, ctx.Err()
}

// swell takes memory, and uses it, until there is none.
func swell(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	var kept [][]byte
	for ctx.Err() == nil {
		part := make([]byte, 1<<20)
		for i := 0; i < len(part); i += 4 << 10 {
			part[i] = byte(len(kept))
		}
		kept = append(kept, part)
	}
	return []byte(strconv.Itoa(len(kept))), nil
}

// flood prints as many bytes as the payload says.
func flood(ctx context.Context, t bullpen.Task) ([]byte, error) {
	size, err := strconv.ParseInt(string(t.Payload), 10, 64)
	if err != nil {
		return nil, err
	}
	line := fmt.Sprintf("%0127d\n", 0)
	text := bytes.Repeat([]byte(line), 512)
	for n := int64(0); n < size; n += int64(len(text)) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, err := os.Stdout.Write(text[:min(int64(len(text)), size-n)]); err != nil {
			return nil, errors.Join(err, io.ErrShortWrite)
		}
	}
	return nil, nil
}
