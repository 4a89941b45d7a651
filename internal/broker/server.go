package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// lazySync is how often the server syncs by itself below the gate. Only what it
	// moves by itself waits for that: a job whose time has come, and that nobody
	// takes. Its own default is two minutes.
	lazySync = 5 * time.Second
	// storeLimit and memoryLimit are what streams may hold in all. The disk and
	// the bounds of the streams are the limit of the first; nothing of ours is
	// kept in memory.
	storeLimit  = 1 << 60
	memoryLimit = 64 << 20
	// inflow is how many messages may wait for a stream before the server
	// refuses more, and inflowBytes how much.
	inflow      = 100_000
	inflowBytes = 128 << 20
	// largestMessage is the most that the server takes at once: what a queue may
	// hold is the queue's to decide, and the server's own default of 1 MiB is too
	// little for one with files in it. A record of 32 MiB with its subject and
	// header is the most that its store can read again. backlog is how much may
	// wait for a client that reads slowly, so that a few such messages do not cut
	// it off.
	largestMessage = 32<<20 - 64<<10
	backlog        = 128 << 20
)

// options returns what the server is to be.
func options(c Config, syncAlways bool) *server.Options {
	return &server.Options{
		ServerName:             "bullpen",
		DontListen:             true,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               c.Dir,
		SyncInterval:           lazySync,
		SyncAlways:             syncAlways,
		MaxPayload:             largestMessage,
		MaxPending:             backlog,
		JetStreamMaxMemory:     memoryLimit,
		JetStreamMaxStore:      storeLimit,
		StreamMaxBufferedMsgs:  inflow,
		StreamMaxBufferedSize:  inflowBytes,
		DisableJetStreamBanner: true,
	}
}

// startServer returns a server that is ready. When ctx ends first it returns an
// error and what is closed when the server has stopped again.
func startServer(ctx context.Context, c Config, syncAlways bool, l *serverLog) (*server.Server, <-chan struct{}, error) {
	s, err := server.NewServer(options(c, syncAlways))
	if err != nil {
		return nil, nil, fmt.Errorf("making the server: %w", err)
	}
	s.SetLogger(calm{l}, false, false)
	l.begin()
	ready := make(chan struct{})
	go func() { // ends when the store has been read; waited for below
		defer close(ready)
		s.Start()
	}()
	select {
	case <-ready:
	case <-ctx.Done():
		late := make(chan struct{})
		go func() { // ends with the server, which cannot be stopped while it reads the store; Open waits for late
			<-ready
			stopServer(s)
			close(late)
		}()
		return nil, late, fmt.Errorf("the server was still reading the store: %w", context.Cause(ctx))
	}
	fatal := l.started()
	if fatal == nil && !s.JetStreamEnabled() {
		fatal = errors.New("the server keeps no store, and does not say why")
	}
	if fatal == nil && !s.ReadyForConnections(10*time.Second) {
		fatal = errors.New("the server takes no connections; is the address in use by another program?")
	}
	if fatal != nil {
		stopServer(s)
		return nil, nil, fmt.Errorf("starting the server: %w", fatal)
	}
	return s, nil, nil
}

// stopServer returns when s and what it has started are at an end.
func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// calm is a log without the advice that the server gives on what we have set on
// purpose.
type calm struct{ *serverLog }

// Warnf hands on a warning.
func (l calm) Warnf(format string, args ...any) {
	if !strings.HasPrefix(format, "Maximum payloads over ") {
		l.serverLog.Warnf(format, args...)
	}
}
