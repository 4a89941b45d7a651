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

// Handlers returns the handlers that serve the tasks of the suite, by name:
//
//	echo      gives the payload back
//	upper     gives the payload back in upper case
//	meta      gives the metadata, sorted, a line for each key
//	big       payload N: gives N bytes
//	deadline  gives "yes" when its context has a deadline, "no" otherwise
//	sleep     payload a duration: waits so long or until its context ends
//	block     waits until its context ends and returns its error
//	gate      payload a path P: makes the file P.started and waits until the
//	          file P is there; when its context ends first, it makes P.ended
//	mark      payload "P ID DURATION": adds the line ID to the file P, waits
//	          like sleep, and gives ID back
//	fail      payload "final:TEXT", "retry:TEXT" or "plain:TEXT": fails
//	panic     panics with the payload
//	goexit    ends its goroutine
//	stubborn  payload a duration: waits so long, whatever its context says
//	spin      the same, keeping a processor busy
//	exit      payload N: ends the process that it runs in with status N
//	nest      hands work to the executor that runs it (within one process)
//
// and these for [Neighbours], which do to the process that they run in what
// their names say; on Windows those with a star fail:
//
//	bad-memory       payload N: takes N MiB, a MiB at a time
//	bad-forks *      payload "N MARK": starts N shells, each of which becomes
//	                 seven processes that stay for a minute
//	bad-spin         payload a duration: keeps all processors busy so long, and
//	                 gives the processor time that its process has taken for it
//	bad-static       payload N: sets a static variable to N, none: leaves it;
//	                 gives its value
//	bad-descriptors * opens files until no more can be opened, and gives their
//	                 number; they stay open
//	bad-disk         payload N: writes a file of N MiB into the temporary folder,
//	                 or as much as goes, and gives its path
//	bad-output       payload N: prints N MiB in lines
//	bad-crash *      payload one of the ways to die that Neighbours lists
//	bad-deaf *       ignores all signals and its context, and spins for a minute
//	bad-stop *       stops its process (SIGSTOP)
//	bad-escape *     payload MARK: starts two processes in a session of their own
//	                 that ignore signals and stay for a minute
//	bad-temp         payload a duration: waits so long, gives the temporary folder
//
// They use nothing but the standard library and may be called at once from many
// goroutines. The map is the caller's.
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
	}
	maps.Copy(all, badHandlers())
	maps.Copy(all, badSystemHandlers())
	return all
}

func handleMeta(_ context.Context, t bullpen.Task) ([]byte, error) {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(t.Meta)) {
		if !strings.HasPrefix(key, "bullpen.") { // those are the executor's own
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

// wait waits for a time or the end of ctx, and then returns its error.
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
			return nil, nil // not when the task was canceled before the file was there
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

// mark adds a line to a file that many processes write at once: one short write
// to a file opened for appending is not torn.
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

// nests has the executors of tests of nested work in this process, by a key in
// the payload.
var nests sync.Map

// elsewhere is what nest gives where it runs in another process than the suite.
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
