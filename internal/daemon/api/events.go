package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
)

// Event ids are positions: an attempt and a number. The number of a line is its time in
// nanoseconds. Any other event, and a line of the same microsecond, gets the previous
// number plus one. So a position means the same on every node, and still tells which
// lines a reader has seen after the job has ended, when only its last lines are kept.

// looks are how often a job that does not run here is looked up.
const (
	firstLook   = 100 * time.Millisecond
	longestLook = 2 * time.Second
)

// State is the data of the event "state".
type State struct {
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
}

// events streams the events of a job until the job ends.
func (a *API) events(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	id := r.PathValue("id")
	after, p := readAfter(r, q)
	if p != nil {
		return p
	}
	info, err := a.backend.Queue().Get(r.Context(), id)
	if err != nil {
		return onJob(problemOf(err), id)
	}
	if info.State.Ended() && isEnd(after) {
		noContent(w) // 204 makes a browser stop reconnecting
		return nil
	}
	waiting, p := a.startWaiting(func() {}) // follow ends the stream itself, so there is nothing to cancel
	if p != nil {
		return p
	}
	defer a.waits.end(waiting)
	stream := a.stream(w, eventsType)
	defer stream.close()
	if r.Method == http.MethodHead {
		return nil
	}
	f := &follower{api: a, id: id, last: after, stream: stream, pause: firstLook}
	f.keep = time.NewTicker(a.config.KeepAlive)
	defer f.keep.Stop()
	f.follow(r.Context(), info)
	return nil
}

// readAfter reads the position to continue from. The query takes precedence over the
// header.
func readAfter(r *http.Request, q query) (position live.Position, p *problem.Problem) {
	var f faults
	if text := first(r.Header, "Last-Event-Id"); text != "" {
		position = readPosition("Last-Event-ID", text, &f)
	}
	if text, there := q.look("after"); there {
		position = readPosition("after", text, &f)
	}
	return position, f.problem()
}

func readPosition(name, text string, f *faults) live.Position {
	position, err := live.ParsePosition(text)
	if attempt, n, _ := strings.Cut(text, "."); err == nil && (len(attempt) > 9 || len(n) > 19) {
		err = errors.New("it is too long: use the id of the last event")
	}
	if err != nil {
		f.add(name + " is " + quoted(text) + ": " + err.Error())
	}
	return position
}

// positionAt returns the position of an event at time t of an attempt.
func positionAt(attempt int, t time.Time) live.Position {
	p := live.Position{Attempt: attempt}
	if !t.IsZero() {
		p.N = uint64(max(t.UnixMicro(), 0)) * uint64(time.Microsecond)
	}
	return p
}

// endOf returns the position of the end of a job. It is after all attempts and after
// last, because this node may not know of an attempt that another node has begun.
func endOf(i *job.Info, last live.Position) live.Position {
	return live.Position{Attempt: max(i.Attempts, last.Attempt) + 1}
}

// isEnd reports whether p is a position returned by endOf: no other event has the number
// 0.
func isEnd(p live.Position) bool { return p.N == 0 && p.Attempt > 0 }

// follower follows one job for one reader.
type follower struct {
	api    *API
	id     string
	stream *stream
	last   live.Position // position of the last event sent
	state  State         // last state sent
	said   Progress      // last progress sent
	keep   *time.Ticker
	pause  time.Duration
	ended  <-chan struct{} // closed when the job has ended; nil once that was seen
}

// follow sends events until the job ends, the reader disconnects, or the daemon
// stops.
func (f *follower) follow(ctx context.Context, info *job.Info) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	f.ended = ended
	go func() { // ends with ctx or the job; this function waits for it
		defer close(ended)
		f.api.backend.Queue().Wait(ctx, f.id) //nolint:errcheck // what has become of the job is looked up
	}()
	defer func() {
		cancel()
		<-ended
	}()
	if f.stream.flush() != nil { // send the headers now
		return
	}
	for info != nil {
		if feed := f.api.backend.Follow(f.id, f.from()); feed != nil {
			before := f.last
			goesOn := f.listen(ctx, feed)
			feed.Close()
			if !goesOn {
				return
			}
			if f.last != before {
				f.pause = firstLook
			}
			if info = f.look(ctx); info == nil {
				return
			}
		}
		f.sendStored(info)
		if f.stream.flush() != nil || info.State.Ended() || !f.rest(ctx) {
			return
		}
		info = f.look(ctx)
	}
}

// from returns the position at which a feed must begin: the attempt of which the reader
// has seen something. follower skips the events that it has seen.
func (f *follower) from() live.Position {
	if f.last.Attempt <= 1 {
		return live.Position{}
	}
	return live.Position{Attempt: f.last.Attempt - 1, N: math.MaxUint64}
}

// look looks up the job; nil if it no longer exists.
func (f *follower) look(ctx context.Context) *job.Info {
	info, err := f.api.backend.Queue().Get(ctx, f.id)
	if err != nil {
		if ctx.Err() == nil {
			f.stream.comment("the job cannot be read: " + oneLine(err.Error()))
			f.stream.flush() //nolint:errcheck // this is the end of it
		}
		return nil
	}
	return info
}

// rest waits until the job must be looked up again. It returns false if the reader
// disconnected or the daemon stops.
func (f *follower) rest(ctx context.Context) bool {
	timer := time.NewTimer(f.pause)
	defer timer.Stop()
	f.pause = min(2*f.pause, longestLook)
	for {
		select {
		case <-timer.C:
			return true
		case <-f.ended:
			f.ended = nil
			return ctx.Err() == nil
		case <-f.keep.C:
			if !f.alive() {
				return false
			}
		case <-ctx.Done():
			return false
		case <-f.api.live.Done():
			f.goodbye()
			return false
		}
	}
}

// alive sends a comment that keeps the stream open.
func (f *follower) alive() bool {
	f.stream.comment("still there")
	return f.stream.flush() == nil
}

func (f *follower) goodbye() {
	f.stream.comment("the daemon is stopping: ask again with the last id, or ask another node")
	f.stream.flush() //nolint:errcheck // this is the end of it
}

// listen sends the events of a job that runs here, until its attempt ends.
func (f *follower) listen(ctx context.Context, feed *live.Feed) (goesOn bool) {
	c := &counter{}
	dropped := uint64(0)
	var late <-chan time.Time
	for {
		select {
		case <-f.ended: // a canceled job may end before its handler
			f.ended = nil
			late = time.After(firstLook)
		case <-late:
			return f.stream.flush() == nil
		case e, more := <-feed.C:
			if n := feed.Dropped(); n > dropped {
				f.stream.gap(n - dropped)
				dropped = n
			}
			if !more {
				return f.stream.flush() == nil
			}
			f.event(c, &e)
			if len(feed.C) == 0 || len(f.stream.buffer) > fullBuffer {
				if f.stream.flush() != nil {
					return false
				}
			}
		case <-f.keep.C:
			if !f.alive() {
				return false
			}
		case <-ctx.Done():
			return false
		case <-f.api.live.Done():
			f.goodbye()
			return false
		}
	}
}

// fullBuffer is how many bytes are collected before they are written.
const fullBuffer = 32 << 10

// counter assigns positions to the events of an attempt, in order.
type counter struct {
	last  live.Position
	known bool // the reader has seen an event, so nothing before the next one is missing
}

func (c *counter) position(attempt int, t time.Time) live.Position {
	p := positionAt(attempt, t)
	if c.last.Attempt != attempt {
		c.last = live.Position{Attempt: attempt}
	}
	p.N = max(p.N, c.last.N+1)
	c.last = p
	return p
}

// unseen reports whether the reader has not seen p. It sends a gap comment if events
// before p may be missing.
func (f *follower) unseen(c *counter, p live.Position) bool {
	if !p.After(f.last) {
		c.known = true
		return false
	}
	if !c.known && f.last.N > 0 && f.last.Attempt == p.Attempt {
		f.stream.gap(0)
	}
	c.known = true
	return true
}

// event sends an event, unless the reader has seen it.
func (f *follower) event(c *counter, e *live.Event) {
	switch e.Kind {
	case live.Began:
		if position := c.position(e.Position.Attempt, time.Time{}); f.unseen(c, position) {
			f.sendState(State{job.Running.String(), e.Position.Attempt}, position)
		}
	case live.Progressed:
		if position := c.position(e.Position.Attempt, time.Time{}); f.unseen(c, position) {
			f.sendProgress(Progress{e.Fraction, e.Note}, position)
		}
	case live.Logged:
		if position := c.position(e.Position.Attempt, e.Line.Time); f.unseen(c, position) {
			f.write("log", position, jsonvalue.LineOf(e.Line))
		}
	case live.Ended: // follow looks the job up and sends its end
	}
}

// write writes an event and records its position.
func (f *follower) write(kind string, position live.Position, v any) {
	if position.After(f.last) {
		f.last = position
	}
	if err := f.stream.eventOf(kind, f.last.String(), v); err != nil {
		f.stream.comment("an event cannot be encoded: " + oneLine(err.Error()))
	}
}

func (f *follower) sendState(s State, position live.Position) {
	if s != f.state {
		f.state = s
		f.write("state", position, s)
	}
}

func (f *follower) sendProgress(p Progress, position live.Position) {
	if p != f.said {
		f.said = p
		f.write("progress", position, p)
	}
}

// sendStored sends what is stored of a job and was not yet sent.
func (f *follower) sendStored(i *job.Info) {
	if !i.State.Ended() {
		f.sendState(State{i.State.String(), i.Attempts}, live.Position{})
	}
	f.sendLines(i.Attempts, i.Lines)
	if i.Progress > 0 || i.Note != "" {
		f.sendProgress(Progress{i.Progress, i.Note}, live.Position{})
	}
	if i.State.Ended() {
		f.write("end", endOf(i, f.last), whole(i))
	}
}

// sendLines sends the stored lines that the reader has not seen.
func (f *follower) sendLines(attempt int, lines []bullpen.LogLine) {
	c := &counter{}
	earlier := live.Position{Attempt: f.last.Attempt}
	if earlier.N = f.last.N; attempt > earlier.Attempt {
		earlier.Attempt = attempt // lines from before the last line sent belong to the attempt before
	}
	for n := range lines {
		position := c.position(attempt, lines[n].Time)
		if !position.After(earlier) {
			c.known = true
		} else if f.unseen(c, position) {
			f.write("log", position, jsonvalue.LineOf(lines[n]))
		}
	}
}

// oneLine makes a text fit for a comment, which is one line.
func oneLine(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}
