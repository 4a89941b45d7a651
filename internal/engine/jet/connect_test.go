package jet

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/natstest"
)

// TestStalledServer has more put than buffers hold while the server is halted: no call
// blocks for long, each put is answered, and it goes on when the server does.
func TestStalledServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a quarter of a minute: run it without -short")
	}
	t.Parallel()
	k := natstest.Start(t, natstest.Config{Lazy: true})
	conn, err := Connect(k.URL(), "stalled")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Config{Conn: conn, Owned: true, Options: engine.Options{Namespace: "stalled"}})
	if err != nil {
		t.Fatal(err)
	}
	k.Pause(0)
	const puts, size = 200, 500_000 // many times what the system buffers
	var mu sync.Mutex
	var longest time.Duration // guarded by mu
	var stored int            // guarded by mu
	var calls, answers sync.WaitGroup
	answers.Add(puts)
	for i := range puts {
		calls.Go(func() {
			began := time.Now()
			e.Put(engine.Put{Stream: engine.Jobs, Subject: engine.JobSubject(mail, jobID(uint64(i))), Data: make([]byte, size)}, func(_ uint64, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					stored++
				}
				answers.Done()
			})
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, time.Since(began))
		})
	}
	calls.Wait()
	answers.Wait()
	t.Logf("%d of %d were stored; the longest call of Put took %v", stored, puts, longest)
	if longest > 4*stallPatience {
		t.Errorf("a call of Put took %v", longest)
	}
	if stored > 0 {
		t.Errorf("%d puts were stored by a server that is halted", stored)
	}
	k.Resume(0)
	subject := engine.JobSubject(mail, jobID(puts))
	putUntilStored(t, e, subject)
	if _, err := e.Get(t.Context(), engine.Jobs, subject); err != nil && !errors.Is(err, engine.ErrNotFound) {
		t.Error(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// An error names the server, and no password.
func TestConnectHidesLogins(t *testing.T) {
	t.Parallel()
	for addresses, want := range map[string]string{
		"nats://me:secret@127.0.0.1:1":                        "no NATS server answers at nats://127.0.0.1:1:",
		"secret@127.0.0.1:1, nats://me:secret@127.0.0.1:2":    "at nats://127.0.0.1:1,nats://127.0.0.1:2:",
		"nats://127.0.0.1:1,nats://me:secret@127.0.0.1:%zz%%": "address 2 of the server is not a URL",
	} {
		conn, err := Connect(addresses, "test")
		if err == nil {
			conn.Close()
			t.Fatalf("Connect(%q) has found a server", addresses)
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Connect(%q) = %v, want %q and no password", addresses, err, want)
		}
	}
}
