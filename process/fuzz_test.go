//go:build unix

package process

import (
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire/frames"
	"github.com/bullpen-run/bullpen/protocol"
)

// puppet is a worker without a process: what it says is given to the decoder by
// hand, after HELLO.
type puppet struct {
	p        *Pool
	w        *worker
	d        *framesDriver
	answered atomic.Int64
}

const puppetTasks = 6

// newPuppet makes a pool with one worker that has said hello and has tasks in
// hand, one of them canceled.
func newPuppet(t *testing.T, concurrency string) *puppet {
	t.Helper()
	r, err := resolve(Config{Command: []string{self()}, Name: "puppet", Window: puppetTasks, Limits: bullpen.Limits{Output: 1 << 16}})
	if err != nil {
		t.Fatal(err)
	}
	p := &Pool{
		config: r, epoch: time.Now(), max: 1, ready: map[chan struct{}]struct{}{},
		poke: make(chan struct{}, 1), over: make(chan struct{}), gaveUp: make(chan struct{}),
	}
	p.state.Init(&poolStates, Open)
	p.late.pool = p
	p.logs = newLogs(slog.New(slog.DiscardHandler), 0, p.tell)
	t.Cleanup(p.logs.close)

	w := &worker{pool: p, name: "puppet-1", concurrency: 1, flight: make([]*call, 64), oldest: 1, next: 1, tail: newTail()}
	w.state.Init(&workerStates, WorkerStarting)
	p.workers, p.starting = []*worker{w}, 1
	d := &framesDriver{stream: stream{base: base{w}}}
	w.driver, w.spins = d, &d.stream
	if d.session, err = frames.New(make([]byte, 9*protocol.PageSize), 1<<17); err != nil {
		t.Fatal(err)
	}
	hear, host, err := confine.HostWritePipe()
	if err != nil {
		t.Fatal(err)
	}
	say, from, err := confine.HostReadPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hear.Close(); say.Close() })
	if err := d.connect(&pipes{in: ends{host: host}, out: ends{host: from}}, d.decodeFrames); err != nil {
		t.Fatal(err)
	}

	hello := protocol.BeginPairs(nil, 5)
	hello = protocol.AppendPair(hello, "tasks", "any")
	hello = protocol.AppendPair(hello, "page", "1")
	hello = protocol.AppendPair(hello, "arena", "1")
	hello = protocol.AppendPair(hello, "caps", "chunks")
	hello = protocol.AppendPair(hello, "concurrency", concurrency)
	k := &puppet{p: p, w: w, d: d}
	if fault := k.say(protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Hello, Code: protocol.Version}, hello), 1<<20); fault != nil {
		t.Fatalf("HELLO: %v", fault)
	}
	for range puppetTasks {
		err := p.Submit(t.Context(), bullpen.Task{Name: "any", Payload: []byte("x")}, func(bullpen.Result, error) { k.answered.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// say gives bytes to the decoder, so many at a time, as a pipe does.
func (k *puppet) say(b []byte, pace int) error {
	in := &k.d.stream
	in.reading.Lock()
	defer in.reading.Unlock()
	for len(b) > 0 && in.fault == nil {
		n := copy(in.buffer[in.end:], b[:min(len(b), max(pace, 1))])
		if n == 0 {
			return os.ErrInvalid // the decoder has left itself no room
		}
		b = b[n:]
		in.end += n
		in.fault = in.decode()
	}
	return in.fault
}

// die accounts for the puppet's end.
func (k *puppet) die() {
	k.p.mu.Lock()
	k.w.exited, k.w.drained = true, true
	k.p.mu.Unlock()
	k.p.settle(k.w)
	k.p.tasks.Wait()
}

// FuzzWorkerBytes lets a worker say anything: the host does not panic, and each
// task has one outcome or waits for another worker.
func FuzzWorkerBytes(f *testing.F) {
	for _, name := range []string{"frames.json", "malformed.json"} {
		text, err := os.ReadFile(filepath.Join("..", "protocol", "vectors", name))
		if err != nil {
			f.Fatal(err)
		}
		var vectors map[string][]struct {
			Hex string `json:"hex"`
		}
		if err := json.Unmarshal(text, &vectors); err != nil {
			f.Fatal(err)
		}
		for _, all := range vectors {
			for _, v := range all {
				b, err := hex.DecodeString(v.Hex)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(b, uint8(0), false)
				f.Add(b, uint8(3), true)
			}
		}
	}
	var session []byte
	for n := uint32(1); n <= puppetTasks; n++ {
		session = protocol.AppendFrame(session, protocol.Header{Kind: protocol.Started, ID: n}, nil)
		session = protocol.AppendFrame(session, protocol.Header{Kind: protocol.Progress, ID: n, Aux: 1}, []byte("on"))
		session = protocol.AppendFrame(session, protocol.Header{Kind: protocol.Log, ID: n, Code: 9}, []byte("line"))
		session = protocol.AppendFrame(session, protocol.Header{Kind: protocol.Chunk, ID: n}, []byte("a piece"))
		session = protocol.AppendFrame(session, protocol.Header{Kind: protocol.Result, ID: n, Aux: 7}, []byte("result"))
	}
	f.Add(session, uint8(0), false)
	f.Add(session, uint8(11), true)
	f.Add(protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Returned, ID: 2}, nil), uint8(0), false)
	f.Fuzz(func(t *testing.T, b []byte, pace uint8, several bool) {
		concurrency := "1"
		if several {
			concurrency = "4"
		}
		k := newPuppet(t, concurrency)
		if pace == 0 {
			_ = k.say(b, 1<<20)
		} else {
			_ = k.say(b, int(pace))
		}
		k.die()
		s := k.p.Stats()
		if answered := k.answered.Load(); answered+int64(s.Queued) != puppetTasks || uint64(answered) != s.Total() || s.InHand != 0 {
			t.Fatalf("of %d tasks %d were answered, %d counted as ended, %d wait and %d are in hand",
				puppetTasks, answered, s.Total(), s.Queued, s.InHand)
		}
	})
}
