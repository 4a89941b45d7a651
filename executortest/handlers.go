package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Handlers returns the handlers for the tasks of the suite, by name:
//
//	echo      returns the payload
//	upper     returns the payload in upper case
//	meta      returns the metadata, sorted, one line per key
//	big       payload N: returns N bytes
//	deadline  returns "yes" if its context has a deadline, else "no"
//	sleep     payload a duration: waits for it, or until its context ends
//	block     waits until its context ends and returns its error
//	gate      payload a path P: creates the file P.started and waits until the
//	          file P exists; if its context ends first, it creates P.ended
//	mark      payload "P ID DURATION": appends the line ID to the file P, waits
//	          like sleep, and returns ID
//	fail      payload "final:TEXT", "retry:TEXT" or "plain:TEXT": fails
//	panic     panics with the payload
//	goexit    ends its goroutine
//	stubborn  payload a duration: waits for it, and ignores its context
//	spin      the same, keeping a processor busy
//	exit      payload N: exits its process with status N
//	nest      submits to the executor that runs it (within one process)
//	stream    payload N: streams the numbers up to N, one line each; payload
//	          "N fail": and then fails
//
// and these for [Neighbours], which harm the process that they run in. Those with a star
// fail on Windows:
//
//	bad-memory       payload N: allocates N MiB, one MiB at a time
//	bad-forks *      payload "N MARK": starts N shells, each of which becomes
//	                 seven processes that run for a minute
//	bad-spin         payload a duration: keeps all processors busy for it, and
//	                 returns the processor time that its process has used
//	bad-static       payload N: sets a static variable to N; no payload: does
//	                 not set it; returns its value
//	bad-descriptors * opens files until no more can be opened, and returns
//	                 their number; they stay open
//	bad-disk         payload N: writes a file of N MiB to the temporary folder,
//	                 or as much as possible, and returns its path
//	bad-output       payload N: prints N MiB in lines
//	bad-crash *      payload one of the ways to die that Neighbours lists
//	bad-deaf *       ignores all signals and its context, and spins for a minute
//	bad-stop *       stops its process (SIGSTOP)
//	bad-escape *     payload MARK: starts two processes in their own session
//	                 that ignore signals and run for a minute
//	bad-temp         payload a duration: waits for it, returns the temporary
//	                 folder
//
// They use only the standard library and may be called concurrently. The caller owns the
// map.
func Handlers() map[string]bullpen.Handler {
	all := map[string]bullpen.Handler{
		"echo":     func(_ context.Context, t bullpen.Task) ([]byte, error) { return bytes.Clone(t.Payload), nil },
		"upper":    func(_ context.Context, t bullpen.Task) ([]byte, error) { return bytes.ToUpper(t.Payload), nil },
		"meta":     handleMeta,
		"big":      handleBig,
		"deadline": handleDeadline,
		"sleep":    handleSleep,
		"block":    func(ctx context.Context, _ bullpen.Task) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() },
		"gate":     handleGate,
		"mark":     handleMark,
		"fail":     handleFail,
		"panic":    func(_ context.Context, t bullpen.Task) ([]byte, error) { panic(string(t.Payload)) },
		"goexit":   func(context.Context, bullpen.Task) ([]byte, error) { runtime.Goexit(); return nil, nil },
		"stubborn": handleStubborn,
		"spin":     handleSpin,
		"exit":     handleExit,
		"nest":     handleNest,
		"stream":   bullpen.Stream(handleStream),
	}
	maps.Copy(all, badHandlers())
	maps.Copy(all, badSystemHandlers())
	return all
}

func handleMeta(_ context.Context, t bullpen.Task) ([]byte, error) {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(t.Meta)) {
		if !strings.HasPrefix(key, "bullpen.") { // the executor's own
			fmt.Fprintf(&b, "%s=%s\n", key, t.Meta[key])
		}
	}
	return b.Bytes(), nil
}

func handleBig(_ context.Context, t bullpen.Task) ([]byte, error) {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return nil, err
	}
	return bytes.Repeat([]byte("x"), n), nil
}

func handleDeadline(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	if _, ok := ctx.Deadline(); ok {
		return []byte("yes"), nil
	}
	return []byte("no"), nil
}

func handleSleep(ctx context.Context, t bullpen.Task) ([]byte, error) {
	d, err := time.ParseDuration(string(t.Payload))
	if err != nil {
		return nil, err
	}
	return nil, wait(ctx, d)
}

// wait waits for a duration, or until ctx ends and then returns its error.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func handleGate(ctx context.Context, t bullpen.Task) ([]byte, error) {
	file := string(t.Payload)
	if err := os.WriteFile(file+".started", nil, 0o600); err != nil {
		return nil, err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(file); err == nil && ctx.Err() == nil {
			return nil, nil // not if the task was canceled before the file existed
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), os.WriteFile(file+".ended", nil, 0o600))
		}
	}
}

func handleMark(ctx context.Context, t bullpen.Task) ([]byte, error) {
	var file, id, pause string
	if _, err := fmt.Sscan(string(t.Payload), &file, &id, &pause); err != nil {
		return nil, err
	}
	if err := mark(file, id); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(pause)
	if err != nil {
		return nil, err
	}
	return []byte(id), wait(ctx, d)
}

// mark appends a line to a file that many processes write concurrently. A single short
// write to a file opened for appending is atomic.
func mark(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

func handleFail(_ context.Context, t bullpen.Task) ([]byte, error) {
	kind, text, _ := strings.Cut(string(t.Payload), ":")
	switch kind {
	case "final":
		return nil, bullpen.Fail(text, false)
	case "retry":
		return nil, bullpen.Fail(text, true)
	default:
		return nil, errors.New(text)
	}
}

func handleStubborn(_ context.Context, t bullpen.Task) ([]byte, error) {
	d, err := time.ParseDuration(string(t.Payload))
	if err != nil {
		return nil, err
	}
	return nil, wait(context.Background(), d)
}

func handleSpin(_ context.Context, t bullpen.Task) ([]byte, error) {
	d, err := time.ParseDuration(string(t.Payload))
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		continue
	}
	return nil, nil
}

func handleExit(_ context.Context, t bullpen.Task) ([]byte, error) {
	status, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return nil, err
	}
	os.Exit(status)
	return nil, nil
}

// nests holds the executors for tests of nested work in this process, by a key in the
// payload.
var nests sync.Map

// elsewhere is the result of nest in a process other than the suite's.
const elsewhere = "elsewhere"

func handleNest(ctx context.Context, t bullpen.Task) ([]byte, error) {
	var key string
	var depth int
	if _, err := fmt.Sscan(string(t.Payload), &key, &depth); err != nil {
		return nil, err
	}
	e, ok := nests.Load(key)
	if !ok {
		return []byte(elsewhere), nil
	}
	if depth == 0 {
		return []byte("bottom"), nil
	}
	inner := bullpen.Task{Name: "nest", Payload: fmt.Appendf(nil, "%s %d", key, depth-1)}
	r, err := bullpen.Execute(ctx, e.(bullpen.Executor), inner)
	return r.Payload, err
}
