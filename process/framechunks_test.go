//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// streamHandlers are handlers whose result streams.
func streamHandlers() map[string]bullpen.Handler {
	write := func(then func(ctx context.Context) error) bullpen.Handler {
		return bullpen.Stream(func(ctx context.Context, _ bullpen.Task, w io.Writer) error {
			if _, err := io.WriteString(w, "begun"); err != nil {
				return err
			}
			return then(ctx)
		})
	}
	return map[string]bullpen.Handler{
		// Streams so many bytes.
		"pour":      bullpen.Stream(pour),
		"pour-fail": write(func(context.Context) error { return errors.New("in the middle") }),
		"pour-die":  write(func(context.Context) error { os.Exit(3); return nil }),
		"pour-wait": write(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
		"pour-deaf": write(func(context.Context) error { select {} }),
		// Streams "first", and "second" when the file exists that its payload names.
		"pour-step": bullpen.Stream(func(_ context.Context, t bullpen.Task, w io.Writer) error {
			if _, err := io.WriteString(w, "first"); err != nil {
				return err
			}
			look := time.NewTicker(time.Millisecond)
			defer look.Stop()
			for _, err := os.Stat(string(t.Payload)); err != nil; _, err = os.Stat(string(t.Payload)) {
				<-look.C
			}
			_, err := io.WriteString(w, "second")
			return err
		}),
	}
}

func pour(_ context.Context, t bullpen.Task, w io.Writer) error {
	n, err := strconv.Atoi(string(t.Payload))
	if err != nil {
		return err
	}
	_, err = io.CopyN(w, &counter{}, int64(n))
	return err
}

// counter is an endless stream of bytes of which no two blocks are alike.
type counter struct{ n int64 }

func (c *counter) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c.n ^ c.n>>8 ^ c.n>>16)
		c.n++
	}
	return len(b), nil
}

func poured(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := pour(t.Context(), bullpen.Task{Payload: []byte(strconv.Itoa(n))}, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFramesChunks(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{self()}, {self(), "concurrent"}} {
		p := open(t, Config{Command: command, Max: 1})
		step := t.TempDir() + "/step"
		got := &pieces{seen: make(chan struct{}, 10)}
		ended := make(chan error, 1)
		if err := p.Submit(t.Context(), bullpen.Task{Name: "pour-step", Payload: []byte(step), Observer: got}, func(r bullpen.Result, err error) {
			if len(r.Payload) > 0 {
				err = errors.Join(err, errors.New("there is a payload"))
			}
			ended <- err
		}); err != nil {
			t.Fatal(err)
		}
		<-got.seen
		create(t, step) // the handler waits for it
		if err := <-ended; err != nil || strings.Join(got.all, "|") != "first|second" {
			t.Errorf("%q, %v", got.all, err)
		}
		if text := do(t, p, "pour-step", step); text != "firstsecond" {
			t.Errorf("without an observer for pieces: %q", text)
		}
		for _, n := range []int{0, 1, 5000, 3 << 20} {
			if text := do(t, p, "pour", strconv.Itoa(n)); text != string(poured(t, n)) {
				t.Errorf("%d bytes: got %d", n, len(text))
			}
			got := &pieces{}
			r, err := p.Execute(t.Context(), bullpen.Task{Name: "pour", Payload: []byte(strconv.Itoa(n)), Observer: got})
			if all := strings.Join(got.all, ""); err != nil || len(r.Payload) > 0 || all != string(poured(t, n)) {
				t.Errorf("%d bytes in pieces: got %d and %d, %v", n, len(all), len(r.Payload), err)
			}
		}
	}
}

// TestChunksThenNoResult: pieces come, and then the task ends as it would without them.
func TestChunksThenNoResult(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{self()}, Max: 2, Grace: 100 * ms})
	for _, c := range []struct {
		name    string
		timeout time.Duration
		cancel  bool
		want    bullpen.Outcome
	}{
		{name: "pour-fail", want: bullpen.Failed},
		{name: "pour-die", want: bullpen.Crashed},
		{name: "pour-wait", timeout: 200 * ms, want: bullpen.Timeout},
		{name: "pour-wait", cancel: true, want: bullpen.Canceled},
		{name: "pour-deaf", timeout: 200 * ms, want: bullpen.Timeout},
		{name: "pour-deaf", cancel: true, want: bullpen.Canceled},
	} {
		for _, observer := range []*pieces{nil, {seen: make(chan struct{}, 1)}} {
			ctx, cancel := context.WithCancel(within(t, time.Minute))
			task := bullpen.Task{Name: c.name, Limits: bullpen.Limits{Timeout: c.timeout}}
			if observer != nil {
				task.Observer = observer
			}
			if c.cancel && observer == nil {
				cancel()
				continue // nobody sees when it has begun
			}
			if c.cancel {
				go func() { <-observer.seen; cancel() }() // ends with the task
			}
			r, err := p.Execute(ctx, task)
			_ = wantOutcome(t, err, c.want)
			if r.Payload != nil || observer != nil && strings.Join(observer.all, "") != "begun" {
				t.Errorf("%s: %q, %v", c.name, r.Payload, observer)
			}
			cancel()
		}
	}
	do(t, p, "echo", "still there")
}

// slowPieces is an observer that takes nothing until it is let go.
type slowPieces struct {
	pieces

	began chan struct{} // closed by the first piece
	once  sync.Once
	let   chan struct{}
}

func newSlow() *slowPieces { return &slowPieces{began: make(chan struct{}), let: make(chan struct{})} }

func (s *slowPieces) Chunk(piece []byte) {
	s.once.Do(func() { close(s.began) })
	<-s.let
	s.pieces.Chunk(piece)
}

// start submits a task that streams so many bytes.
func (s *slowPieces) start(t *testing.T, ctx context.Context, p *Pool, n int, limits bullpen.Limits) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	task := bullpen.Task{Name: "pour", Payload: []byte(strconv.Itoa(n)), Observer: s, Limits: limits}
	if err := p.Submit(ctx, task, func(_ bullpen.Result, err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	<-s.began
	return ended
}

// stalled reports whether nothing is read from the only worker.
func stalled(p *Pool) bool {
	p.mu.Lock()
	d := p.workers[0].driver.(*framesDriver)
	p.mu.Unlock()
	d.reading.Lock()
	defer d.reading.Unlock()
	return d.stalled
}

// TestSlowObserverStopsTheWorker: a worker with one task waits for its caller, and goes on.
// A task that must end early ends nevertheless.
func TestSlowObserverStopsTheWorker(t *testing.T) {
	t.Parallel()
	const many = 8 << 20
	p := open(t, Config{Command: []string{self()}, Max: 1})
	slow := newSlow()
	ended := slow.start(t, t.Context(), p, many, bullpen.Limits{})
	poll(t, "the worker is not read from", func() bool { return stalled(p) })
	close(slow.let)
	if err := <-ended; err != nil || strings.Join(slow.all, "") != string(poured(t, many)) {
		t.Errorf("%d pieces, %v", len(slow.all), err)
	}

	slow = newSlow()
	ctx, cancel := context.WithCancel(t.Context())
	ended = slow.start(t, ctx, p, many, bullpen.Limits{})
	poll(t, "the worker is not read from", func() bool { return stalled(p) })
	cancel()
	_ = wantOutcome(t, <-ended, bullpen.Canceled)
	close(slow.let)

	slow = newSlow()
	ended = slow.start(t, t.Context(), p, many, bullpen.Limits{Timeout: 100 * ms})
	_ = wantOutcome(t, <-ended, bullpen.Timeout)
	close(slow.let)

	slow = newSlow()
	ended = slow.start(t, t.Context(), p, many, bullpen.Limits{})
	poll(t, "the worker is not read from", func() bool { return stalled(p) })
	if signalWorkers(p, syscall.SIGKILL) != 1 {
		t.Error("there is no worker to kill")
	}
	_ = wantOutcome(t, <-ended, bullpen.Crashed)
	close(slow.let)
	do(t, p, "echo", "still there")
}

// TestSlowObserverLeavesOthersAlone: tasks beside one whose caller is slow go on.
func TestSlowObserverLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{self(), "concurrent"}, Max: 1})
	slow := newSlow()
	ended := slow.start(t, t.Context(), p, 8<<20, bullpen.Limits{})
	for range 20 {
		do(t, p, "echo", "beside it")
	}
	close(slow.let)
	if err := <-ended; err != nil || strings.Join(slow.all, "") != string(poured(t, 8<<20)) {
		t.Errorf("%d pieces, %v", len(slow.all), err)
	}
}

// TestPanickingChunkObserver: its task ends, and the pool lives on.
func TestPanickingChunkObserver(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := open(t, Config{Command: []string{self()}, Max: 1, Logger: j.logger()})
	if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "pour", Payload: []byte("100"), Observer: &panicking{}}); err != nil {
		t.Error(err)
	}
	do(t, p, "echo", "still there")
}

type panicking struct{ notes }

func (*panicking) Chunk([]byte) { panic("no more") }

// TestKillingStreamsAtRandom: whatever dies, a result that streams is complete, or its task
// has failed, and what came is its beginning.
func TestKillingStreamsAtRandom(t *testing.T) {
	t.Parallel()
	length := 2 * time.Second
	if long() {
		length = time.Minute
	}
	for _, command := range [][]string{{self()}, {self(), "concurrent"}} {
		p := open(t, Config{Command: command, Min: 1, Max: 3, Grace: 50 * ms})
		stop := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() { every(30*ms, stop, func() { signalWorkers(p, syscall.SIGKILL) }) }) // ends when stop is closed
		want, whole := string(poured(t, 1<<20)), 0
		var mu sync.Mutex
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() { // ends with its time
				for end := time.Now().Add(length / 2); time.Now().Before(end); {
					n := rand.IntN(1 << 20)
					got := &pieces{}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+rand.IntN(200))*ms)
					r, err := p.Execute(ctx, bullpen.Task{Name: "pour", Payload: []byte(strconv.Itoa(n)), Observer: got})
					cancel()
					got.mu.Lock()
					all := strings.Join(got.all, "")
					got.mu.Unlock()
					mu.Lock()
					if err == nil {
						whole++
					}
					mu.Unlock()
					if !strings.HasPrefix(want[:n], all) || err == nil && len(all) != n || len(r.Payload) > 0 {
						t.Errorf("of %d bytes came %d, %v", n, len(all), err)
					}
				}
			})
		}
		callers.Wait()
		close(stop)
		others.Wait()
		t.Logf("%d whole results, %d workers started", whole, p.Stats().Started)
		poll(t, "the pool works", func() bool {
			r, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "echo", Payload: []byte("x")})
			return err == nil && string(r.Payload) == "x"
		})
	}
}
