package queue

import "time"

// The subjects on which nodes tell each other of schedules: that one was changed,
// that a tick was dealt with, and that a node fires no more.
const (
	tellChanged = "cron.set"
	tellTicked  = "cron.tick"
	tellBye     = "cron.bye"
)

// news is what a firer hears. One field is set.
type news struct {
	fired   *entry            // its ticks have been dealt with
	changed string            // the name of a schedule
	loaded  *scannedSchedule  // it was read; without a record and an error it is gone
	all     []scannedSchedule // all were read, begun at the time asked
	asked   time.Time
	failed  error // reading failed
	name    string
	ticked  *tickRecord // of the schedule name, with seq
	seq     uint64
	bye     string // a node
}

// listen hears what other nodes do.
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
	for subject, heard := range map[string]func([]byte){
		tellChanged: func(b []byte) { f.tell(news{changed: string(b)}) },
		tellBye:     func(b []byte) { f.tell(news{bye: string(b)}) },
		tellTicked:  f.heardTick,
	} {
		s, err := f.queue.engine.Listen(subject, func(_ string, b []byte) { heard(b) })
		if err != nil {
			return stop, storeError(err)
		}
		stops = append(stops, s)
	}
	return stop, nil
}

// tell puts something into the inbox.
func (f *firer) tell(n news) {
	f.mu.Lock()
	f.inbox = append(f.inbox, n)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// local is the call of FireSchedules of this queue, nil when there is none.
func (q *Queue) local() *firer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.firer
}

// scheduleChanged tells all nodes that a schedule was put or removed.
func (q *Queue) scheduleChanged(name string) {
	if f := q.local(); f != nil {
		f.tell(news{changed: name})
	}
	if q.engine.Shared() {
		q.engine.Send(tellChanged, []byte(name)) //nolint:errcheck // they read all again from time to time
	}
}

// scheduleTicked tells all nodes how far a schedule is.
func (q *Queue) scheduleTicked(name string, seq uint64, record []byte) {
	w := recordWriter{make([]byte, 0, len(record)+len(name)+16)}
	w.text(1, name)
	w.number(2, seq)
	w.bytes(3, record)
	if q.engine.Shared() {
		q.engine.Send(tellTicked, w.b) //nolint:errcheck // who does not hear of it looks
		return
	}
	if f := q.local(); f != nil {
		f.heardTick(w.b)
	}
}

func (f *firer) heardTick(b []byte) {
	var n news
	var record []byte
	err := readFields(b, func(field field) error {
		switch field.tag {
		case 1:
			n.name = string(field.v)
		case 2:
			return field.into(&n.seq)
		case 3:
			record = field.v
		}
		return nil
	})
	if err != nil {
		return
	}
	t, err := decodeTick(n.name, record)
	if err != nil {
		return
	}
	n.ticked = &t
	f.tell(n)
}
