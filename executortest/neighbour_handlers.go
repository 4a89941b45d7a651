package executortest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// markVariable names the environment variable that identifies the processes started by bad
// handlers.
const markVariable = "BULLPEN_NEIGHBOUR"

// stay is how long processes of bad handlers run if nothing ends them: longer than the
// suite waits for their end, but not forever.
const stay = time.Minute

// badHandlers are the bad handlers that work on every system.
func badHandlers() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{
		"bad-memory": handleMemory,
		"bad-spin":   handleSpinAll,
		"bad-static": handleStatic,
		"bad-disk":   handleDisk,
		"bad-output": handleOutput,
		"bad-temp": func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			d, err := time.ParseDuration(string(t.Payload))
			if err != nil {
				return nil, err
			}
			return []byte(os.TempDir()), wait(ctx, d)
		},
	}
}

func handleMemory(_ context.Context, t bullpen.Task) ([]byte, error) {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return nil, err
	}
	const pageSize = 4096
	taken := make([][]byte, 0, n)
	for range n {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += pageSize {
			b[i] = 1
		}
		taken = append(taken, b)
	}
	runtime.KeepAlive(taken)
	return t.Payload, nil
}

// handleSpinAll returns "0s" if the processor time of a process is unknown.
func handleSpinAll(_ context.Context, t bullpen.Task) ([]byte, error) {
	d, err := time.ParseDuration(string(t.Payload))
	if err != nil {
		return nil, err
	}
	before := processorTime()
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() { // ends after its duration; the handler waits for it
			for end := time.Now().Add(d); time.Now().Before(end); {
				continue
			}
		})
	}
	all.Wait()
	return []byte((processorTime() - before).String()), nil
}

// static is what one task leaves behind for the next one in its process.
var static atomic.Int64

func handleStatic(_ context.Context, t bullpen.Task) ([]byte, error) {
	if len(t.Payload) > 0 {
		n, err := strconv.ParseInt(string(t.Payload), 10, 64)
		if err != nil {
			return nil, err
		}
		static.Store(n)
	}
	return strconv.AppendInt(nil, static.Load(), 10), nil
}

// handleDisk returns the path even if the folder is full, because that is one of the ways
// to bound it.
func handleDisk(_ context.Context, t bullpen.Task) ([]byte, error) {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(os.TempDir(), "filled")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	block := make([]byte, 1<<20)
	for range n {
		if _, full := f.Write(block); full != nil {
			break
		}
	}
	return []byte(path), f.Close()
}

func handleOutput(_ context.Context, t bullpen.Task) ([]byte, error) {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return nil, err
	}
	const size = 1 << 10
	line := strings.Repeat("x", size-1) + "\n"
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for range n << 20 / size {
		if _, err := w.WriteString(line); err != nil {
			return nil, err
		}
	}
	return t.Payload, w.Flush()
}

// dieHere are the ways to die that work on every system. None of them can be recovered
// from.
var dieHere = map[string]func(){
	"exit 0": func() { os.Exit(0) },
	"exit 3": func() { os.Exit(3) },
	"stack overflow": func() {
		debug.SetMaxStack(1 << 20) // the default is one GiB
		_ = recurse(math.MaxInt)
	},
	"fatal error": func() {
		var mu sync.Mutex
		mu.Unlock() // as after concurrent map writes, but reliably
	},
	"panic in a goroutine": func() {
		go func() { panic("nobody catches this") }() // ends the process
	},
}

// recurse is not compiled to a loop, because of the code after the call.
func recurse(n int) int {
	if n == 0 {
		return 0
	}
	return recurse(n-1) + 1
}

func die(way string) error {
	end, ok := dieHere[way]
	if !ok {
		return fmt.Errorf("no way to die: %q", way)
	}
	end()
	if way == "panic in a goroutine" {
		select {}
	}
	return errors.New("still alive after " + way)
}
