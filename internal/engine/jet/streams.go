package jet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// address is how to reach one stream of the engine on the server.
type address struct {
	name string // of the stream on the server
	// confirm is how the server's answer to a stored message begins.
	confirm string
	direct  string // the subject for reads from any replica
	leader  string // the subject for reads from the leader
	remove  string // the subject for deletions
}

func addresses(namespace string) [4]address {
	var all [4]address
	for s, end := range map[engine.Stream]string{
		engine.Jobs: "JOBS", engine.Outcomes: "OUT", engine.State: "STATE", engine.Dead: "DEAD",
	} {
		name := "BP_" + namespace + "_" + end
		all[s] = address{
			name:    name,
			confirm: `{"stream":"` + name + `","seq":`,
			direct:  "$JS.API.DIRECT.GET." + name,
			leader:  "$JS.API.STREAM.MSG.GET." + name,
			remove:  "$JS.API.STREAM.MSG.DELETE." + name,
		}
	}
	return all
}

// bound translates "0 is no bound" for the server.
func bound(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

func (e *Engine) streamConfig(s engine.Stream) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:         e.addresses[s].name,
		Storage:      jetstream.FileStorage,
		Replicas:     e.config.Replicas,
		Retention:    jetstream.LimitsPolicy,
		Discard:      jetstream.DiscardOld,
		MaxMsgs:      -1,
		MaxBytes:     -1,
		MaxConsumers: -1,
		MaxMsgSize:   -1,
		AllowDirect:  true,
	}
	o := e.config.Options
	switch s {
	case engine.Jobs:
		c.Description = "jobs that wait or run"
		c.Subjects = []string{e.prefix + "job.>", e.prefix + "at.*"}
		c.Retention = jetstream.WorkQueuePolicy
		c.MaxMsgsPerSubject = -1
		c.AllowMsgSchedules = true
		c.AllowRollup = true // a schedule replaces the one before it
	case engine.Outcomes:
		c.Description = "how jobs ended"
		c.Subjects = []string{e.prefix + "out.>"}
		c.MaxMsgsPerSubject = 1
		c.MaxMsgs, c.MaxBytes, c.MaxAge = bound(o.OutcomeCount), bound(o.Outcomes), o.OutcomeAge
	case engine.State:
		c.Description = "idempotency keys, attempts, settings"
		c.Subjects = []string{e.prefix + "key.>", e.prefix + "try.>", e.prefix + "live.>", e.prefix + "set.>"}
		c.MaxMsgsPerSubject = 1
		c.AllowMsgTTL = true
	case engine.Dead:
		c.Description = "jobs that failed for good, with their evidence"
		c.Subjects = []string{e.prefix + "dead.>"}
		c.MaxMsgsPerSubject = 1
		c.MaxBytes, c.MaxAge = bound(o.Dead), o.DeadAge
	}
	return c
}

// makeStreams creates or updates the streams, and records the last sequence number of the
// stream of jobs.
func (e *Engine) makeStreams(ctx context.Context) error {
	for _, s := range engine.Streams() {
		c := e.streamConfig(s)
		stream, err := e.makeStream(ctx, c)
		if err != nil {
			return fmt.Errorf("jet: the stream %s cannot be created or updated: %w%s", c.Name, err, advice(err))
		}
		if s == engine.Jobs {
			state := stream.CachedInfo().State
			e.old.Store(state.LastSeq)
			e.jobs.looked(state.Bytes, e.jobs.look())
		}
	}
	return nil
}

// advice returns what to do about an error that does not say so itself.
func advice(err error) string {
	var fault *jetstream.APIError
	if !errors.As(err, &fault) {
		return ""
	}
	if fault.ErrorCode == codeNoCluster {
		return "; run three servers as a cluster (cluster.routes), or set replicas to 1"
	}
	return "; see the log of the server, or use another namespace"
}

// makeStream creates one stream. A cluster that is just starting has no leader yet and
// needs its other servers; makeStream then waits until ctx ends. A server that is just
// removing the last stream of a store may remove the folder of the next one too.
func (e *Engine) makeStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	const pause = 50 * time.Millisecond
	waits := c.Replicas > 1
	begin := time.Now()
	warned := begin
	for {
		stream, err := e.tryStream(ctx, c)
		if err == nil || ctx.Err() != nil || !passing(err, waits) || !waits && time.Since(begin) > makePatience {
			return stream, err
		}
		if time.Since(warned) > makePatience {
			warned = time.Now()
			e.log.Warn("the queue waits for the cluster of its servers", "for", time.Since(begin).Round(time.Second), "error", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// tryStream tries once. A server without a leader may not answer at all.
func (e *Engine) tryStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	if err := e.keepsCopies(ctx, c); err != nil {
		return nil, err
	}
	stream, err := e.js.CreateOrUpdateStream(ctx, c)
	if err != nil {
		return nil, err
	}
	if lacks := lacking(c, stream.CachedInfo().Config); lacks != "" {
		return nil, fmt.Errorf("the server (version %s) does not support %s: use nats-server 2.14 or later", e.conn.ConnectedServerVersion(), lacks)
	}
	return stream, nil
}

// passing reports whether the obstacle to a stream may soon pass.
func passing(err error, cluster bool) bool {
	var fault *jetstream.APIError
	if errors.As(err, &fault) {
		switch int(fault.ErrorCode) {
		case codeStoreNotMade, codeNotAvailable, codeNotLeader, codeNoPeers:
			return true
		}
		return false
	}
	return cluster && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders))
}

// makePatience is how long a single server may be unable to create a stream, and how
// often a wait for a cluster is reported.
const makePatience = 3 * time.Second

// The server's error codes that may pass.
const (
	codeNoPeers      = 10005 // no suitable peers for placement
	codeStoreNotMade = 10049 // error creating store for stream
	codeNoCluster    = 10074 // replicas > 1 not supported in non-clustered mode
)

// oldest is what Old compares with while the last sequence number is unknown.
const oldest = math.MaxUint64

// lookAgain reads the last sequence number of the stream of jobs after a connection was
// lost. It runs in a background goroutine.
func (e *Engine) lookAgain() {
	ctx, cancel := context.WithTimeout(e.life, apiPatience)
	defer cancel()
	info, err := e.streamInfo(ctx, engine.Jobs)
	if err != nil {
		// Everything stays old, which costs reads but loses nothing.
		e.log.Warn("jet: the stream of jobs could not be read after a lost connection", "error", err)
		return
	}
	e.old.CompareAndSwap(oldest, info.State.LastSeq)
}

func (e *Engine) streamInfo(ctx context.Context, s engine.Stream) (*jetstream.StreamInfo, error) {
	stream, err := e.js.Stream(ctx, e.addresses[s].name)
	if err != nil {
		return nil, e.trouble("reading the stream "+e.addresses[s].name, err)
	}
	return stream.CachedInfo(), nil
}
