package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
)

// childVariable makes the test binary a worker; its value is a key of workers.
const childVariable = "BULLPEN_TEST_WORKER"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		c, ok := workers()[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no worker is named", name)
			os.Exit(99)
		}
		Main(c)
	}
	leak.Main(m)
}

// workers are what the test binary can be.
func workers() map[string]Config {
	zoo := zoo()
	standard := maps.Clone(zoo)
	maps.DeleteFunc(standard, func(name string, _ bullpen.Handler) bool { return !slices.Contains(vectorNames, name) })
	return map[string]Config{
		"vectors": {Handlers: standard, Order: vectorNames},
		"zoo":     {Handlers: zoo},
		"several": {Handlers: zoo, Concurrency: 4},
		"wrong":   {Handlers: map[string]bullpen.Handler{"echo": nil}, Concurrency: 1000, Order: []string{"x"}},
	}
}

// vectorNames are the handlers of protocol/vectors, in their order.
var vectorNames = []string{"echo", "fail", "meta", "big", "*", "chunks"}

// oneByOne streams the payload in pieces of one byte.
func oneByOne(_ context.Context, t bullpen.Task, w io.Writer) error {
	for i := range t.Payload {
		if _, err := w.Write(t.Payload[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// handlerNumber gives the number of a handler of the zoo on the wire.
func handlerNumber(name string) uint16 {
	return uint16(slices.Index(slices.Sorted(maps.Keys(zoo())), name) + 1)
}

// zoo has the handlers of the tests: those of the vectors, and odd ones.
func zoo() map[string]bullpen.Handler {
	var kept context.Context // of the task keep; handlers of "zoo" run one at a time
	meeting := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(4)
	return map[string]bullpen.Handler{
		"echo": func(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil },
		"null": func(context.Context, bullpen.Task) ([]byte, error) { return nil, nil },
		"fail": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			return nil, bullpen.Fail(string(t.Payload), !strings.HasPrefix(string(t.Payload), "!"))
		},
		"meta": meta, "big": big, "chunks": bullpen.Stream(oneByOne),
		"*":        func(_ context.Context, t bullpen.Task) ([]byte, error) { return []byte("any:" + t.Name), nil },
		"break":    broken,
		"block":    block,
		"spin":     spin,
		"report":   report,
		"task":     describe,
		"contexts": contexts,
		"exit":     func(context.Context, bullpen.Task) ([]byte, error) { os.Exit(7); return nil, nil },
		"keep": func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
			kept = ctx
			return nil, nil
		},
		"kept": func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
			Progress(kept, 0.5, "must not be sent")
			Logger(kept).Info("late")
			return fmt.Append(nil, kept.Err(), " ", ctx.Err()), nil
		},
		"children": func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
			return exec.CommandContext(ctx, "sh", "-c", "for fd in 3 4 5; do test -e /dev/fd/$fd && echo $fd is open; done; echo \"${"+variable+"-nothing}\"").Output()
		},
		"meet": func(context.Context, bullpen.Task) ([]byte, error) { // four at a time, or never
			arrived.Done()
			arrived.Wait()
			return nil, nil
		},
		"first": func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
			select {
			case <-meeting:
				return []byte("met"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		"second": func(context.Context, bullpen.Task) ([]byte, error) { close(meeting); return nil, nil },
	}
}

func meta(_ context.Context, t bullpen.Task) ([]byte, error) {
	var lines []string
	for key, value := range t.Meta {
		if !strings.HasPrefix(key, "bullpen.") {
			lines = append(lines, key+"="+value)
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "\n")), nil
}

func big(_ context.Context, t bullpen.Task) ([]byte, error) {
	n, err := strconv.Atoi(string(t.Payload))
	return make([]byte, max(0, n)), err
}

// rude is an error that cannot be read.
type rude struct{}

func (rude) Error() string { panic("no words") }

// broken ends in the way that the payload names.
func broken(_ context.Context, t bullpen.Task) ([]byte, error) {
	switch string(t.Payload) {
	case "goexit":
		runtime.Goexit()
	case "index":
		return t.Payload[len(t.Payload):][:0:0][1:2], nil
	case "nil":
		panic(nil)
	case "error":
		panic(errors.New("thrown"))
	case "rude":
		return nil, rude{}
	case "long":
		panic(strings.Repeat("€", 100000))
	case "type":
		return nil, &os.PathError{Op: "open", Path: "x", Err: os.ErrNotExist}
	case "wrapped":
		return nil, fmt.Errorf("wrapped: %w", bullpen.Fail("inside", false))
	case "canceled":
		return nil, context.Canceled // nobody asked
	}
	panic(string(t.Payload))
}

// block says that it runs, and waits for the end of its context.
func block(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	Progress(ctx, 0, "runs")
	<-ctx.Done()
	return nil, ctx.Err()
}

// spin says that it runs, and looks at its context without ever pausing.
func spin(ctx context.Context, _ bullpen.Task) ([]byte, error) {
	Progress(ctx, 0, "runs")
	for ctx.Err() == nil {
	}
	return nil, fmt.Errorf("spun: %w", context.Cause(ctx))
}

func report(ctx context.Context, t bullpen.Task) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	Progress(ctx, 0.25, "a quarter")
	Progress(ctx, 7, strings.Repeat("€", 5000))
	Progress(ctx, -1, "")
	t.Observer.Progress(0.5, "by the observer")
	t.Observer.Log(bullpen.LogLine{Level: 4, Stream: "stdout", Text: "by the observer"})
	log := Logger(ctx)
	log.Debug("must not be sent")
	log.With("a", 1).WithGroup("g").Warn("two words", "b", "x y", "msg", "kept", "empty", "")
	log.Error("first\nsecond")
	return nil, nil
}

func describe(ctx context.Context, t bullpen.Task) ([]byte, error) {
	_, limited := ctx.Deadline()
	return fmt.Appendf(nil, "%s|%s|%v|%v|%d|%v", t.ID, t.Name, t.Meta, t.Limits.Timeout, t.Limits.Output, limited), nil
}

// contexts makes contexts from the task's and says how they end.
func contexts(ctx context.Context, t bullpen.Task) ([]byte, error) {
	before := runtime.NumGoroutine()
	child, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { close(ran) })
	unused := context.AfterFunc(ctx, func() { panic("was stopped") })
	stopped := unused() && !unused()
	grown := runtime.NumGoroutine() - before
	Progress(ctx, 0, "runs")
	<-child.Done()
	<-ran
	return fmt.Appendf(nil, "%v %v %v %v %d", ctx.Err(), child.Err(), stopped, stop(), grown), nil
}
