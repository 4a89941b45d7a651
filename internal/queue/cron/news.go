package cron

import (
	"context"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// The subjects of messages between nodes: a schedule was changed, a tick was handled, a
// node stopped firing.
const (
	subjectChanged = "cron.set"
	subjectTicked  = "cron.tick"
	subjectStopped = "cron.bye"
)

// news is an event for a firer. One field is set.
type news struct {
	fired   *entry            // its ticks have been handled
	changed string            // the name of a schedule
	loaded  *scannedSchedule  // a schedule that was read; without record and error it is gone
	all     []scannedSchedule // all schedules, as read from the time asked on
	asked   time.Time
	failed  error // reading failed
	name    string
	ticked  *record.Tick // of the schedule name, with seq
	seq     uint64
	bye     string // the node that stopped firing
}

// listenPause is the time before listening is tried again.
const listenPause = time.Second

// listenSoon is listen, tried again as long as the store does not answer.
func (f *firer) listenSoon(ctx context.Context) (stop func(), err error) {
	for {
		stop, err = f.listen()
		if !errors.Is(err, job.ErrStore) {
			return stop, err
		}
		stop()
		select {
		case <-time.After(listenPause):
		case <-ctx.Done():
			return func() {}, nil
		case <-f.queue.Live.Done():
			return func() {}, job.ErrClosed
		}
	}
}

// listen subscribes to the messages of other nodes.
func (f *firer) listen() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	if !f.shared {
		return stop, nil
	}
	for subject, received := range map[string]func([]byte){
		subjectChanged: func(b []byte) { f.post(news{changed: string(b)}) },
		subjectStopped: func(b []byte) { f.post(news{bye: string(b)}) },
		subjectTicked:  f.heardTick,
	} {
		s, err := f.queue.Engine.Listen(subject, func(_ string, b []byte) { received(b) })
		if err != nil {
			return stop, jobs.StoreError(err)
		}
		stops = append(stops, s)
	}
	return stop, nil
}

// post puts an event into the inbox.
func (f *firer) post(n news) {
	f.mu.Lock()
	f.inbox = append(f.inbox, n)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// local returns this queue's call of FireSchedules, nil for none.
func (q *Schedules) local() *firer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.firer
}

// scheduleChanged notifies all nodes that a schedule was put or removed.
func (q *Schedules) scheduleChanged(name string) {
	if f := q.local(); f != nil {
		f.post(news{changed: name})
	}
	if q.Engine.Shared() {
		q.Engine.Send(subjectChanged, []byte(name)) //nolint:errcheck // they read all again from time to time
	}
}

// scheduleTicked sends the progress of a schedule to all nodes.
func (q *Schedules) scheduleTicked(name string, seq uint64, data []byte) {
	word := record.EncodeTicked(name, seq, data)
	if q.Engine.Shared() {
		q.Engine.Send(subjectTicked, word) //nolint:errcheck // who does not hear of it looks
		return
	}
	if f := q.local(); f != nil {
		f.heardTick(word)
	}
}

func (f *firer) heardTick(b []byte) {
	if name, seq, t, err := record.DecodeTicked(b); err == nil {
		f.post(news{name: name, seq: seq, ticked: &t})
	}
}
