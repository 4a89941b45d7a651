package jet

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/broker"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// failing is a disk that fails while a put is sent: it has not when it is asked before
// that, and the engine's watcher hears nothing of it.
type failing struct {
	engine.Disk

	asked atomic.Int32
	armed atomic.Bool
	open  chan struct{}
}

// askedBefore is how often a put asks before it is sent.
const askedBefore = 2

func (f *failing) Failed() <-chan struct{} {
	if !f.armed.Load() || f.asked.Add(1) <= askedBefore {
		return f.open
	}
	failed := make(chan struct{})
	close(failed)
	return failed
}

func (f *failing) Err() error { return fmt.Errorf("%w: no more disk", engine.ErrFailed) }

// TestFailureWhileSending has the disk fail while a put is sent. It was left in the
// table then, and waited a minute for an answer that could not come.
func TestFailureWhileSending(t *testing.T) {
	b, err := broker.Open(t.Context(), broker.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	conn, err := nats.Connect("", nats.InProcessServer(b.Server()))
	if err != nil {
		t.Fatal(err)
	}
	disk := &failing{Disk: b, open: make(chan struct{})}
	e, err := Open(t.Context(), Config{Conn: conn, Owned: true, Disk: disk, Options: engine.Options{Namespace: "failing"}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	// Nobody answers: what is put cannot be told by the server.
	if err := e.answers.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	w := pending{put: engine.Put{Stream: engine.State, Subject: "live.x", Data: []byte("x")}}
	ended := make(chan error, 1)
	disk.armed.Store(true)
	e.Put(w.put, func(_ uint64, err error) { ended <- err })
	select {
	case err := <-ended:
		if !errors.Is(err, engine.ErrFailed) {
			t.Errorf("a put on a disk that fails ends with %v", err)
		}
	default:
		t.Error("a put waits that was sent while the disk failed")
	}
}
