package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// run runs an ephemeral task and answers when it has ended.
func (a *API) run(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	var faults faults
	o := readOrder(q, &faults)
	o.readHeaders(r.Header, &faults)
	if _, there := r.Header[headerKey]; there {
		faults.add(headerKey + " is not for ephemeral tasks, which are not stored: leave it out, or submit a job")
	}
	if o.chunks && !wantsEvents(r) {
		faults.add("chunks is for a stream of events: send Accept: " + eventsType + ", or leave it out")
	}
	o.settle(time.Now(), &faults)
	name := r.PathValue("pool")
	whole, err := a.backend.Complete(name, o.job)
	if err != nil {
		return problemOf(err)
	}
	if p := faults.problem(); p != nil {
		return p
	}
	o.job.Name = whole.Name
	body, p := readBody(r, a.config.MaxBody, "http.max_body", "send less, or raise it in bullpen.yaml")
	if p != nil {
		return p
	}
	// The payload stays in memory until the task has ended, and counts towards
	// http.max_inflight until then.
	o.job.Payload = body
	done, p := a.parentWaits(o.parent)
	if p != nil {
		return p
	}
	defer done()
	ctx := r.Context()
	if !o.job.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.job.Deadline)
		defer cancel()
	}
	if wantsEvents(r) {
		return a.runStream(ctx, w, name, o.task(), o.chunks)
	}
	id, result, err := a.backend.Run(ctx, name, o.task())
	if err != nil {
		if id != "" {
			w.Header()[headerTask] = []string{id}
		}
		return problemOf(err)
	}
	writeResult(w, headerTask, id, 1, &result)
	return nil
}

// cancelRun cancels an ephemeral task.
func (a *API) cancelRun(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	id := r.PathValue("id")
	if !a.backend.CancelRun(id) {
		return problem.New(problem.NotFound, "No ephemeral task with the id "+quoted(id)+" is running here: it has ended, or it runs on another node.")
	}
	noContent(w)
	return nil
}

// RunResult is the data of the event "result" of an ephemeral task.
type RunResult struct {
	Payload string            `json:"payload_base64"`
	Meta    map[string]string `json:"meta,omitempty"`
	Stats   RunStats          `json:"stats"`
}

// Chunk is the data of the event "chunk": a piece of the result.
type Chunk struct {
	Payload string `json:"payload_base64"`
}

// chunked is watched with the pieces of a result that streams.
type chunked struct {
	*watched

	pieces chan<- []byte
	over   <-chan struct{} // closed when nobody reads pieces any more
}

// Chunk waits until the piece is about to be sent.
func (o *chunked) Chunk(piece []byte) {
	select {
	case o.pieces <- bytes.Clone(piece):
	case <-o.over:
	}
}

// chunk sends a piece of a result; nil is none.
func (s *stream) chunk(piece []byte) error {
	if piece == nil {
		return nil
	}
	return s.eventOf("chunk", "", Chunk{base64.StdEncoding.EncodeToString(piece)})
}

// RunStats has the times of an ephemeral task.
type RunStats struct {
	Waited     float64 `json:"waited,omitempty"`
	Ran        float64 `json:"ran,omitempty"`
	Worker     string  `json:"worker,omitempty"`
	PeakMemory int64   `json:"peak_memory,omitempty"`
}

// watched buffers the progress and log lines of a task that is run as a stream of
// events, until they are sent. It is bounded: lines that do not fit are counted and
// dropped, and of progress only the latest is kept.
type watched struct {
	news chan struct{} // capacity 1: signals that there is something to send

	mu       sync.Mutex
	lines    []bullpen.LogLine // guarded by mu
	bytes    int               // bytes of the texts of lines; guarded by mu
	dropped  uint64            // guarded by mu
	progress *Progress         // guarded by mu
}

const (
	mostWatched  = 1024
	watchedBytes = 1 << 20
)

// Progress records progress.
func (o *watched) Progress(fraction float64, note string) {
	o.mu.Lock()
	o.progress = &Progress{fraction, note}
	o.mu.Unlock()
	o.notify()
}

// Log buffers a line.
func (o *watched) Log(line bullpen.LogLine) {
	o.mu.Lock()
	if len(o.lines) < mostWatched && o.bytes < watchedBytes {
		o.lines = append(o.lines, line)
		o.bytes += len(line.Text)
	} else {
		o.dropped++
	}
	o.mu.Unlock()
	o.notify()
}

func (o *watched) notify() {
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// write sends what is buffered.
func (o *watched) write(s *stream) error {
	o.mu.Lock()
	lines, dropped, progress := o.lines, o.dropped, o.progress
	o.lines, o.bytes, o.dropped, o.progress = nil, 0, 0, nil
	o.mu.Unlock()
	for i := range lines {
		if err := s.eventOf("log", "", jsonvalue.LineOf(lines[i])); err != nil {
			return err
		}
	}
	if dropped > 0 {
		s.gap(dropped)
	}
	if progress != nil {
		return s.eventOf("progress", "", progress)
	}
	return nil
}

// ran is the result of an ephemeral task.
type ran struct {
	result bullpen.Result
	err    error
}

// runStream runs a task and streams its events, with chunks also its result as it comes. If the task never started and nothing
// was sent, it answers with a plain problem.
func (a *API) runStream(ctx context.Context, w http.ResponseWriter, pool string, t bullpen.Task, chunks bool) *problem.Problem {
	if t.ID == "" {
		t.ID = "run-" + ulid.Make().String() // events need the id before Run returns it; no job has such an id
	}
	w.Header()[headerTask] = []string{t.ID}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := &watched{news: make(chan struct{}, 1)}
	pieces := make(chan []byte)
	t.Observer = seen
	if chunks {
		t.Observer = &chunked{seen, pieces, ctx.Done()}
	}
	ended := make(chan ran, 1)
	go func() { // ends with the task, whose end is awaited below
		_, result, err := a.backend.Run(ctx, pool, t)
		ended <- ran{result, err}
	}()
	keep := time.NewTicker(a.config.KeepAlive)
	defer keep.Stop()
	var s *stream
	defer func() {
		if s != nil {
			s.close()
		}
	}()
	for {
		alive := false
		var piece []byte
		select {
		case end := <-ended:
			if _, started := bullpen.OutcomeOf(end.err); s == nil && !started {
				return problemOf(end.err)
			}
			if s == nil {
				s = a.stream(w, eventsType)
			}
			seen.writeEnd(s, &end)
			return nil
		case <-seen.news:
		case piece = <-pieces:
		case <-keep.C:
			alive = true
		}
		if s == nil {
			s = a.stream(w, eventsType)
		}
		if alive {
			s.comment("still running")
		}
		if err := errors.Join(seen.write(s), s.chunk(piece), s.flush()); err != nil {
			cancel() // the reader disconnected
			<-ended
			return nil
		}
	}
}

// writeEnd sends what is buffered, and the result.
func (o *watched) writeEnd(s *stream, end *ran) {
	err := o.write(s)
	if end.err != nil {
		s.event("problem", "", problemOf(end.err).JSON())
	} else {
		err = errors.Join(err, s.eventOf("result", "", resultOf(&end.result)))
	}
	if err == nil {
		s.flush() //nolint:errcheck // the client may be gone
	}
}

// resultOf converts the result of a task that ended well.
func resultOf(r *bullpen.Result) RunResult {
	return RunResult{
		Payload: base64.StdEncoding.EncodeToString(r.Payload), Meta: r.Meta,
		Stats: RunStats{
			Waited: r.Stats.Waited.Seconds(), Ran: r.Stats.Ran.Seconds(), Worker: r.Stats.Worker, PeakMemory: r.Stats.PeakMemory,
		},
	}
}
