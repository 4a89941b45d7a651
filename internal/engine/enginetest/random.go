package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// seedVariable is the environment variable that repeats a random test.
const seedVariable = "BULLPEN_SEED"

func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: want a number: %v", seedVariable, text, err)
	}
	return seed
}

// model is what an engine must hold.
type model struct {
	*fixture

	r *rand.Rand
	// kept holds the messages of each stream except Jobs, by subject.
	kept map[engine.Stream]map[string]engine.Message
	last map[engine.Stream]uint64

	recorders *recorder
	jobs      map[string]bool    // subjects of jobs that must still come
	acked     map[string]bool    // of jobs that were acknowledged
	held      map[string]arrival // handed out and not answered
}

// testRandom executes random operations and compares the results with a model. It is the
// only caller, so each result is known in advance.
func testRandom(t *testing.T, f Factory) {
	_, r := random(t)
	m := &model{
		fixture: f.open(t, engine.Options{}), r: r,
		kept: map[engine.Stream]map[string]engine.Message{}, last: map[engine.Stream]uint64{},
		jobs: map[string]bool{}, acked: map[string]bool{}, held: map[string]arrival{},
	}
	for _, s := range engine.Streams() {
		m.kept[s] = map[string]engine.Message{}
	}
	m.recorders = m.take(normal)
	steps := []func(){m.put, m.put, m.put, m.get, m.remove, m.scanSome, m.job, m.job, m.receive, m.receive, m.answer, m.answer}
	const operations = 600
	for i := range operations {
		if i%200 == 199 {
			m.restart()
			continue
		}
		steps[r.IntN(len(steps))]()
		if t.Failed() {
			t.Fatalf("operation %d differs from the model", i)
		}
	}
	m.drain()
}

func (m *model) stream() engine.Stream {
	return engine.Streams()[1+m.r.IntN(3)]
}

func (m *model) subject() string {
	return fmt.Sprintf("key.%c.%c", 'a'+rune(m.r.IntN(3)), 'a'+rune(m.r.IntN(3)))
}

// put puts a message on one of a few subjects, with or without a condition.
func (m *model) put() {
	s := m.stream()
	p := engine.Put{Stream: s, Subject: kindOf(s) + m.subject()[3:], Data: fmt.Appendf(nil, "%d", m.r.Uint32()), Durable: m.r.IntN(2) == 0}
	before, there := m.kept[s][p.Subject]
	holds := true
	switch m.r.IntN(4) {
	case 0:
		p.New, holds = true, !there
	case 1:
		p.After = before.Seq
		if m.r.IntN(3) == 0 {
			p.After++ // not the number on the subject
		}
		holds = p.After == before.Seq
	}
	data := slices.Clone(p.Data)
	seq, err := m.give(p).wait(m.t)
	switch {
	case !holds && !errors.Is(err, engine.ErrConflict):
		m.t.Errorf("Put %+v over %+v = %d, %v, want ErrConflict", p, before, seq, err)
	case holds && (err != nil || seq <= m.last[s]):
		m.t.Errorf("Put %+v over %+v = %d, %v, want it stored after %d", p, before, seq, err, m.last[s])
	case holds:
		m.last[s] = seq
		m.kept[s][p.Subject] = engine.Message{Stream: s, Subject: p.Subject, Seq: seq, Data: data}
	}
}

// kindOf returns the first token of the subjects of s.
func kindOf(s engine.Stream) string {
	kind, _, _ := strings.Cut(fresh(s), ".")
	return kind
}

func same(a, b engine.Message) bool {
	return a.Stream == b.Stream && a.Subject == b.Subject && a.Seq == b.Seq && string(a.Data) == string(b.Data)
}

func (m *model) get() {
	s := m.stream()
	subject := kindOf(s) + m.subject()[3:]
	want, there := m.kept[s][subject]
	got, err := m.Get(m.ctx(), s, subject)
	if !there && !errors.Is(err, engine.ErrNotFound) || there && (err != nil || !same(got, want)) {
		m.t.Errorf("Get %s of %v = %+v, %v, want %+v", subject, s, got, err, want)
	}
}

func (m *model) remove() {
	s := m.stream()
	for subject, msg := range m.kept[s] {
		if err := m.Delete(m.ctx(), s, msg.Seq); err != nil {
			m.t.Errorf("Delete of %s = %v", subject, err)
		}
		delete(m.kept[s], subject)
		return
	}
}

func (m *model) scanSome() {
	s := m.stream()
	from, limit := uint64(m.r.IntN(int(m.last[s])+2)), 1+m.r.IntN(10)
	first := string('a' + rune(m.r.IntN(3)))
	pattern, matches := kindOf(s)+".>", func(string) bool { return true }
	if m.r.IntN(2) == 0 {
		pattern = kindOf(s) + "." + first + ".*"
		matches = func(subject string) bool { return subject[len(kindOf(s))+1:][:1] == first }
	}
	var want []engine.Message
	for _, msg := range m.kept[s] {
		if msg.Seq >= from && matches(msg.Subject) {
			want = append(want, msg)
		}
	}
	slices.SortFunc(want, func(a, b engine.Message) int { return int(a.Seq) - int(b.Seq) })
	want = want[:min(limit, len(want))]
	got, err := m.Scan(m.ctx(), s, pattern, from, limit)
	if err != nil || !slices.EqualFunc(got, want, same) {
		m.t.Errorf("Scan %s of %v from %d, up to %d = %v, %v, want %v", pattern, s, from, limit, got, err, want)
	}
}

// job puts a job, sometimes with a time in the near future.
func (m *model) job() {
	p := engine.Put{Stream: engine.Jobs, Subject: fresh(engine.Jobs), New: true, Durable: m.r.IntN(2) == 0}
	p.Data = []byte(p.Subject)
	if m.r.IntN(5) == 0 {
		p.At = time.Now().Add(time.Duration(m.r.IntN(50)) * time.Millisecond)
	}
	m.fixture.put(p)
	m.jobs[p.Subject] = true
}

// receive takes one message if one is due.
func (m *model) receive() {
	if len(m.jobs) == len(m.held) {
		return // none can come, or only later
	}
	m.arrived(m.recorders.next())
}

func (m *model) arrived(d arrival) {
	switch {
	case m.acked[d.Subject] || !m.jobs[d.Subject]:
		m.t.Errorf("%s was delivered, which was acknowledged or never put", d.Subject)
	case string(d.Data) != d.Subject:
		m.t.Errorf("%s was delivered with %q", d.Subject, d.Data)
	}
	if _, twice := m.held[d.Subject]; twice {
		m.t.Errorf("%s was delivered twice within its lease", d.Subject)
	}
	m.held[d.Subject] = d
}

// answer answers one of the held deliveries.
func (m *model) answer() {
	if len(m.held) == 0 {
		return
	}
	d := m.held[slices.Sorted(maps.Keys(m.held))[0]]
	switch m.r.IntN(4) {
	case 0:
		d.Nak(0)
	case 1:
		d.Nak(time.Duration(m.r.IntN(20)) * time.Millisecond)
	case 2:
		d.Extend()
		return
	default:
		m.end(d)
	}
	delete(m.held, d.Subject)
}

func (m *model) end(d arrival) {
	d.Ack()
	m.acked[d.Subject] = true
	delete(m.jobs, d.Subject)
	delete(m.held, d.Subject)
}

// restart opens the store again, with some waiting jobs. All others are ended before: a
// job without an answer, or whose answer was lost, comes only after its lease, which
// would take too long.
func (m *model) restart() {
	m.endAll()
	m.recorders.stop()
	for range m.r.IntN(5) {
		m.job()
	}
	m.reopen()
	m.recorders = m.take(normal)
}

// endAll ends all jobs.
func (m *model) endAll() {
	for {
		for _, d := range m.held {
			m.end(d)
		}
		if len(m.jobs) == 0 || m.t.Failed() {
			break
		}
		m.receive()
	}
	eventually(m.t, "no job is left", func() bool { return len(m.scan(engine.Jobs, ">")) == 0 })
}

// drain ends all jobs and compares what the other streams hold.
func (m *model) drain() {
	m.endAll()
	for s, kept := range m.kept {
		found := m.scan(s, ">")
		if len(found) != len(kept) {
			m.t.Errorf("%v holds %d messages, want %d", s, len(found), len(kept))
		}
		for _, msg := range found {
			if !same(msg, kept[msg.Subject]) {
				m.t.Errorf("%v holds %+v, want %+v", s, msg, kept[msg.Subject])
			}
		}
	}
}
