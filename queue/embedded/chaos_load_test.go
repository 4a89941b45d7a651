package embedded_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// The queues of the load.
const (
	workQueue = "work"
	keptQueue = "kept" // nobody works on it
)

// long says that the long versions of these tests run (make chaos).
var long = os.Getenv("BULLPEN_LONG") != ""

// rounds is how often something is done: more in the long version.
func rounds(short, many int) int {
	if long {
		return many
	}
	return short
}

// payload gives random bytes that know whether they are whole: up to most.
func payload(random *rand.Rand, most int) []byte {
	b := make([]byte, 16+random.IntN(max(most-16, 1)))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

// intact reports whether b is a payload as it was made.
func intact(b []byte) error {
	if len(b) < 16 || binary.LittleEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return errors.New("the payload is not the one that was enqueued")
	}
	return nil
}

// eventLog keeps what a queue and its server say. It is a slog.Handler.
type eventLog struct {
	verified chan struct{} // closed when the queue has read all that was stored

	mu    sync.Mutex
	jobs  map[string]map[string]bool // the ids of jobs by message; guarded by mu
	lines []string                   // warnings and errors; guarded by mu
	done  bool                       // verified is closed; guarded by mu
}

func newEventLog() *eventLog {
	return &eventLog{verified: make(chan struct{}), jobs: make(map[string]map[string]bool)}
}

func (l *eventLog) logger() *slog.Logger                     { return slog.New(l) }
func (l *eventLog) Enabled(context.Context, slog.Level) bool { return true }
func (l *eventLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *eventLog) WithGroup(string) slog.Handler            { return l }

func (l *eventLog) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		if a.Key != "job" {
			return true
		}
		if l.jobs[r.Message] == nil {
			l.jobs[r.Message] = make(map[string]bool)
		}
		l.jobs[r.Message][a.Value.String()] = true
		return true
	})
	if r.Level >= slog.LevelWarn {
		l.lines = append(l.lines, line)
	}
	if r.Message == "queue: "+job.Verified.String() && !l.done {
		l.done = true
		close(l.verified)
	}
	return nil
}

// of gives the ids of the jobs of an event.
func (l *eventLog) of(kind job.EventKind) map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make(map[string]bool)
	for id := range l.jobs["queue: "+kind.String()] {
		ids[id] = true
	}
	return ids
}

// said reports whether a warning or an error contains the words.
func (l *eventLog) said(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.lines, "\n"), words)
}

// tail gives the last warnings and errors.
func (l *eventLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(len(l.lines)-20, 0):], "\n")
}

// patience bounds every wait of these tests; on a machine at rest all are short.
const patience = 120 * time.Second

// openQueue opens the queue and closes it at the end of the test.
func openQueue(t *testing.T, c queue.Config) *queue.Queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := queue.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// startWork works until the test ends or stop is called.
func startWork(t *testing.T, q *queue.Queue, e bullpen.Executor, c queue.WorkConfig) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Work(ctx, e, c) }() // ends with ctx; stop waits
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && q.Err() == nil && !errors.Is(err, job.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// closing closes an executor at the end of the test.
func closing(t *testing.T, e bullpen.Executor, err error) bullpen.Executor {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// pause lets time pass where that is the point: until a random moment, or between
// two looks.
func pause(d time.Duration) { <-time.After(d) }

// until waits until ok says so, looking again and again: for what tells nobody.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); pause(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not so: %s", patience, what)
		}
	}
}
