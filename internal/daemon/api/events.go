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
	"github.com/bullpen-run/bullpen/job"
)

// The ids of events are places: the attempt and a number. That of a line is its
// time, in nanoseconds; that of any other event, and of a line of the same
// microsecond, is the one before and one. So a place means the same on every node
// and after the end of the job, when only its last lines are kept: it tells which
// of those a reader has seen.

// looks are how often a job that does not run here is looked up.
const (
	firstLook   = 100 * time.Millisecond
	longestLook = 2 * time.Second
)

// State is the data of an event of this name.
type State struct {
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
}

// events tells what a job says of itself, as it happens, until it ends.
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
		noContent(w) // which tells a browser not to come again
		return nil
	}
	waiting, p := a.startWaiting(func() {}) // the follower says goodbye by itself
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

// readAfter reads where a stream of events goes on: the query goes before the
// header.
func readAfter(r *http.Request, q query) (place live.Place, p *problem.Problem) {
	var f faults
	if text := first(r.Header, "Last-Event-Id"); text != "" {
		place = readPlace("Last-Event-ID", text, &f)
	}
	if text, there := q.look("after"); there {
		place = readPlace("after", text, &f)
	}
	return place, f.problem()
}

func readPlace(name, text string, f *faults) live.Place {
	place, err := live.ParsePlace(text)
	if attempt, n, _ := strings.Cut(text, "."); err == nil && (len(attempt) > 9 || len(n) > 19) {
		err = errors.New("it is too long: give back the id of the last event")
	}
	if err != nil {
		f.add(name + " is " + quoted(text) + ": " + err.Error())
	}
	return place
}

// placeAt is the place of an event of an attempt.
func placeAt(attempt int, t time.Time) live.Place {
	p := live.Place{Attempt: attempt}
	if !t.IsZero() {
		p.N = uint64(max(t.UnixMicro(), 0)) * uint64(time.Microsecond)
	}
	return p
}

// endOf is the place of the end of a job: behind all its attempts, and behind
// last, for a node may not know of the attempt that another has begun.
func endOf(i *job.Info, last live.Place) live.Place {
	return live.Place{Attempt: max(i.Attempts, last.Attempt) + 1}
}

// isEnd reports whether p is what endOf gave: of no other event the number is 0.
func isEnd(p live.Place) bool { return p.N == 0 && p.Attempt > 0 }

// follower follows one job for one reader.
type follower struct {
	api    *API
	id     string
	stream *stream
	last   live.Place // what lies behind it is to be told
	state  State      // that was told last
	said   Progress   // that was told last
	keep   *time.Ticker
	pause  time.Duration
	ended  <-chan struct{} // closed when the job has ended; nil when that is known
}

// follow goes on until the job ends, the reader goes, or the daemon stops.
func (f *follower) follow(ctx context.Context, info *job.Info) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	f.ended = ended
	go func() { // ends with ctx or the job; it is waited for below
		defer close(ended)
		f.api.backend.Queue().Wait(ctx, f.id) //nolint:errcheck // what has become of the job is looked up
	}()
	defer func() {
		cancel()
		<-ended
	}()
	if f.stream.flush() != nil { // the reader learns that there is a stream
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
		f.tell(info)
		if f.stream.flush() != nil || info.State.Ended() || !f.rest(ctx) {
			return
		}
		info = f.look(ctx)
	}
}

// from is where a feed is to begin: at the attempt of which the reader has seen
// something. What he has seen of it is left out here.
func (f *follower) from() live.Place {
	if f.last.Attempt <= 1 {
		return live.Place{}
	}
	return live.Place{Attempt: f.last.Attempt - 1, N: math.MaxUint64}
}

// look looks the job up, nil when it is gone.
func (f *follower) look(ctx context.Context) *job.Info {
	info, err := f.api.backend.Queue().Get(ctx, f.id)
	if err != nil {
		if ctx.Err() == nil {
			f.stream.comment("the job cannot be looked up: " + oneLine(err.Error()))
			f.stream.flush() //nolint:errcheck // this is the end of it
		}
		return nil
	}
	return info
}

// rest waits until the job is to be looked up again; false when nobody reads any
// more or the daemon stops.
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

// alive shows that the stream lives.
func (f *follower) alive() bool {
	f.stream.comment("still there")
	return f.stream.flush() == nil
}

func (f *follower) goodbye() {
	f.stream.comment("the daemon stops: ask again with the last id, perhaps another node")
	f.stream.flush() //nolint:errcheck // this is the end of it
}

// listen tells the events of a job that runs here, until its attempt has ended.
func (f *follower) listen(ctx context.Context, feed *live.Feed) (goesOn bool) {
	c := &counter{}
	dropped := uint64(0)
	var late <-chan time.Time
	for {
		select {
		case <-f.ended: // a job that is canceled may end before its handler
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

// fullBuffer is how much is written at a time where much is to be told.
const fullBuffer = 32 << 10

// counter gives places to the events of an attempt, in their order.
type counter struct {
	last  live.Place
	known bool // the reader has seen an event, so that nothing is missing between
}

func (c *counter) place(attempt int, t time.Time) live.Place {
	p := placeAt(attempt, t)
	if c.last.Attempt != attempt {
		c.last = live.Place{Attempt: attempt}
	}
	p.N = max(p.N, c.last.N+1)
	c.last = p
	return p
}

// unseen reports whether the reader has not seen p, and says so when something
// before it may be missing.
func (f *follower) unseen(c *counter, p live.Place) bool {
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

// event tells one event, unless the reader has seen it.
func (f *follower) event(c *counter, e *live.Event) {
	switch e.Kind {
	case live.Began:
		if place := c.place(e.Place.Attempt, time.Time{}); f.unseen(c, place) {
			f.tellState(State{job.Running.String(), e.Place.Attempt}, place)
		}
	case live.Progressed:
		if place := c.place(e.Place.Attempt, time.Time{}); f.unseen(c, place) {
			f.tellProgress(Progress{e.Fraction, e.Note}, place)
		}
	case live.Logged:
		if place := c.place(e.Place.Attempt, e.Line.Time); f.unseen(c, place) {
			f.write("log", place, lineOf(e.Line))
		}
	case live.Ended: // what has become of the job is looked up
	}
}

// write writes an event and notes its place.
func (f *follower) write(kind string, place live.Place, v any) {
	if place.After(f.last) {
		f.last = place
	}
	if err := f.stream.eventOf(kind, f.last.String(), v); err != nil {
		f.stream.comment("an event cannot be told: " + oneLine(err.Error()))
	}
}

func (f *follower) tellState(s State, place live.Place) {
	if s != f.state {
		f.state = s
		f.write("state", place, s)
	}
}

func (f *follower) tellProgress(p Progress, place live.Place) {
	if p != f.said {
		f.said = p
		f.write("progress", place, p)
	}
}

// tell tells what is kept of a job and not told yet.
func (f *follower) tell(i *job.Info) {
	if !i.State.Ended() {
		f.tellState(State{i.State.String(), i.Attempts}, live.Place{})
	}
	f.tellLines(i.Attempts, i.Lines)
	if i.Progress > 0 || i.Note != "" {
		f.tellProgress(Progress{i.Progress, i.Note}, live.Place{})
	}
	if i.State.Ended() {
		f.write("end", endOf(i, f.last), whole(i))
	}
}

// tellLines tells the kept lines that the reader has not seen.
func (f *follower) tellLines(attempt int, lines []bullpen.LogLine) {
	c := &counter{}
	earlier := live.Place{Attempt: f.last.Attempt}
	if earlier.N = f.last.N; attempt > earlier.Attempt {
		earlier.Attempt = attempt // what is older than the last line is of the attempt before
	}
	for n := range lines {
		place := c.place(attempt, lines[n].Time)
		if !place.After(earlier) {
			c.known = true
		} else if f.unseen(c, place) {
			f.write("log", place, lineOf(lines[n]))
		}
	}
}

// oneLine makes a text fit for a comment.
func oneLine(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] < ' ' {
			b[i] = ' '
		}
	}
	return string(b)
}
