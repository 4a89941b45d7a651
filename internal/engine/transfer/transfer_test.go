package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/engine/pebble"
	"github.com/bullpen-run/bullpen/internal/natstest"
	"github.com/bullpen-run/bullpen/queue"
)

// open opens an engine that is closed at the end of the test.
func open(t *testing.T, s engine.Store) engine.Engine {
	t.Helper()
	e, err := s.Open(t.Context(), engine.Options{Namespace: "main", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// folder is a store in a folder.
type folder string

func (f folder) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	return pebble.Open(ctx, pebble.Config{Dir: string(f), Options: o})
}

func inFolder(t *testing.T) engine.Engine {
	t.Helper()
	return open(t, folder(filepath.Join(t.TempDir(), "store")))
}

func inMemory(t *testing.T) engine.Engine {
	t.Helper()
	return open(t, &memory.Store{})
}

func put(t *testing.T, e engine.Engine, p engine.Put) {
	t.Helper()
	answer := make(chan error, 1)
	e.Put(p, func(_ uint64, err error) { answer <- err })
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
}

func id(n int) string { return fmt.Sprintf("0%025d", n) }

// full puts something of all kinds into a store.
func full(t *testing.T, e engine.Engine, jobs int) {
	t.Helper()
	for i := range jobs {
		data := make([]byte, rand.IntN(3000))
		for k := range data {
			data[k] = byte(rand.Uint32())
		}
		p := engine.Put{Subject: "job.mails.normal." + id(i), Data: data, New: true}
		if i%10 == 9 {
			p.At = time.Now().Add(time.Hour).Truncate(time.Second)
		}
		put(t, e, p)
		put(t, e, engine.Put{Stream: engine.Outcomes, Subject: "out." + id(jobs+i), Data: data})
	}
	put(t, e, engine.Put{Stream: engine.Dead, Subject: "dead.mails." + id(1_000_000), Data: []byte("evidence")})
	put(t, e, engine.Put{Stream: engine.State, Subject: "set.cron.nightly", Data: []byte("0 3 * * *")})
	put(t, e, engine.Put{Stream: engine.State, Subject: "key.mails.a", Data: []byte("key"), TTL: time.Hour})
	put(t, e, engine.Put{Stream: engine.State, Subject: "key.mails.empty"})
	if err := e.Pause(t.Context(), engine.Consumer{Queue: "mails", Priority: "low"}, true); err != nil {
		t.Fatal(err)
	}
}

// content describes all that a store holds, times to the second, and when it expires.
func content(t *testing.T, e engine.Engine) (all map[string]string, expires map[string]time.Time) {
	t.Helper()
	all, expires = map[string]string{}, map[string]time.Time{}
	for _, s := range engine.Streams() {
		_, err := e.Walk(t.Context(), s, engine.Walk{}, func(m engine.Message) bool {
			at := ""
			if !m.At.IsZero() {
				at = m.At.UTC().Truncate(time.Second).String()
			}
			all[fmt.Sprint(s, " ", m.Subject)] = fmt.Sprintf("%x to %s at %s", m.Data, m.Target, at)
			expires[fmt.Sprint(s, " ", m.Subject)] = m.Expires
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	paused, err := e.Paused(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range paused {
		all[fmt.Sprint("paused ", c)] = ""
	}
	return all, expires
}

// waiting gives the jobs that wait, in the order in which they are handed out.
func waiting(t *testing.T, e engine.Engine) (ids []string) {
	t.Helper()
	_, err := e.Walk(t.Context(), engine.Jobs, engine.Walk{}, func(m engine.Message) bool {
		if m.At.IsZero() {
			ids = append(ids, engine.LastToken(m.Subject))
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// same wants two stores to hold the same.
func same(t *testing.T, got, want engine.Engine) {
	t.Helper()
	g, gUntil := content(t, got)
	w, wUntil := content(t, want)
	for subject, until := range wUntil {
		// A copy keeps what is left of the time, so that the way counts.
		if d := gUntil[subject].Sub(until).Abs(); d > time.Minute || gUntil[subject].IsZero() != until.IsZero() {
			t.Errorf("%s is kept until %v, want %v", subject, gUntil[subject], until)
		}
	}
	if !maps.Equal(g, w) {
		for subject := range w {
			if g[subject] != w[subject] {
				t.Errorf("%s is %.200q, want %.200q", subject, g[subject], w[subject])
			}
		}
		t.Errorf("the copy holds %d, the original %d", len(g), len(w))
	}
	if g, w := waiting(t, got), waiting(t, want); fmt.Sprint(g) != fmt.Sprint(w) {
		t.Errorf("the copy hands out %.300v, the original %.300v", g, w)
	}
}

const someJobs = 200

var someSummary = Summary{Jobs: someJobs, Scheduled: someJobs / 10, Outcomes: someJobs, Dead: 1, State: 3, Paused: 1}

// From a folder to a server, to memory, to lines, to another folder: all holds the same.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	k := natstest.Start(t, natstest.Config{})
	original := inFolder(t)
	full(t, original, someJobs)
	server, last := open(t, queue.Server{URL: k.URL()}), inFolder(t)
	for _, step := range []struct{ from, to engine.Engine }{{original, server}, {server, last}} {
		s, err := Copy(t.Context(), step.from, step.to)
		if err != nil || s != someSummary {
			t.Fatalf("Copy = %+v, %v, want %+v", s, err, someSummary)
		}
		same(t, step.to, original)
	}
	var text bytes.Buffer
	if s, err := Export(t.Context(), last, &text); err != nil || s != someSummary {
		t.Fatalf("Export = %+v, %v", s, err)
	}
	again := inMemory(t)
	if s, err := Import(t.Context(), &text, again); err != nil || s != someSummary {
		t.Fatalf("Import = %+v, %v", s, err)
	}
	same(t, again, original)
}

// Jobs whose time comes while they are copied are copied once.
func TestTimesThatCome(t *testing.T) {
	t.Parallel()
	from, to := inFolder(t), inFolder(t)
	const jobs = 500
	now := time.Now()
	for i := range jobs {
		put(t, from, engine.Put{Subject: "job.mails.normal." + id(i), New: true, At: now.Add(time.Second + time.Duration(i)*2*time.Millisecond)})
	}
	slow := &slowly{sink: newFiller(t.Context(), to), pause: 4 * time.Millisecond}
	s, err := read(t.Context(), from, slow)
	if err != nil || s.Jobs != jobs {
		t.Fatalf("%+v, %v; want %d jobs", s, err, jobs)
	}
	for range 100 { // until the last has come to its time
		if d, err := to.Depth(t.Context(), engine.Consumer{Queue: "mails", Priority: "normal"}); err == nil && d.Waiting >= jobs {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	seen := map[string]int{}
	for _, id := range waiting(t, to) {
		seen[id]++
	}
	for i := range jobs {
		if n := seen[id(i)]; n != 1 {
			t.Errorf("job %d is %d times in the copy", i, n)
		}
	}
}

// slowly is a sink that takes its time.
type slowly struct {
	sink

	pause time.Duration
}

func (s *slowly) put(i item) error {
	<-time.After(s.pause)
	return s.sink.put(i)
}

// What is not as it should be is refused in clear words.
func TestRefused(t *testing.T) {
	t.Parallel()
	from, used := inMemory(t), inMemory(t)
	full(t, from, 20)
	full(t, used, 1)
	if _, err := Copy(t.Context(), from, used); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("Copy to a store that is in use = %v, want ErrNotEmpty", err)
	}
	worked := &slowly{sink: newFiller(t.Context(), inMemory(t))}
	worked.sink = during{worked.sink, func() { put(t, from, engine.Put{Stream: engine.Outcomes, Subject: "out." + id(77)}) }}
	if _, err := read(t.Context(), from, worked); !errors.Is(err, ErrChanged) {
		t.Errorf("a copy of a store that is worked on = %v, want ErrChanged", err)
	}
	var text bytes.Buffer
	if _, err := Export(t.Context(), from, &text); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(text.String(), "\n")
	lines = lines[:len(lines)-1]
	n := len(lines)
	for name, c := range map[string]struct {
		text, want string
	}{
		"empty":            {"", "truncated after line 0"},
		"cut off":          {strings.Join(lines[:n-1], ""), fmt.Sprintf("truncated after line %d", n-1)},
		"without a line":   {strings.Join(lines[:5], "") + strings.Join(lines[6:], ""), "has lost lines"},
		"without the head": {strings.Join(lines[1:], ""), "line 1: it is not an export"},
		"of something":     {"hello\n", "line 1: it is not a line of an export"},
		"newer":            {"{\"version\":2}\n", "of a newer release"},
		"two":              {lines[0] + lines[1] + strings.Join(lines, ""), "line 3: a second export begins here"},
		"with more":        {strings.Join(lines, "") + "{}\n", "data after the end"},
		"with a job twice": {strings.Join(lines[:n-1], "") + lines[n-2] + strings.ReplaceAll(lines[n-1], `"jobs":20,"scheduled":2`, `"jobs":21,"scheduled":3`), "another message came first"},
		"unknown stream":   {lines[0] + `{"stream":"rivers","subject":"a.b"}` + "\n", `line 2: there is no stream "rivers"`},
		"unknown field":    {lines[0] + `{"stream":"jobs","colour":"red"}` + "\n", `line 2: it is not a line of an export`},
		"no job":           {lines[0] + `{"stream":"jobs","subject":"a"}` + "\n", "line 2: put a: a job is put to job.<queue>.<priority>.<id>"},
	} {
		_, err := Import(t.Context(), strings.NewReader(c.text), inMemory(t))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Import = %v, want %q", name, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Copy(ended, from, inMemory(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("Copy = %v, want that it was canceled", err)
	}
}

// during calls something before each put.
type during struct {
	sink

	call func()
}

func (d during) put(i item) error {
	d.call()
	return d.sink.put(i)
}

// A store that has no room for all says so.
func TestFull(t *testing.T) {
	t.Parallel()
	from := inMemory(t)
	full(t, from, 300)
	s := &memory.Store{}
	to, err := s.Open(t.Context(), engine.Options{Namespace: "main", Jobs: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close(context.Background())
	if _, err := Copy(t.Context(), from, to); !errors.Is(err, engine.ErrFull) {
		t.Errorf("Copy to a store that is too small = %v, want ErrFull", err)
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte("{\"version\":1}\n{\"stream\":\"jobs\",\"subject\":\"job.a.normal.x\",\"data\":\"AQ==\"}\n{\"end\":{\"jobs\":1}}\n"))
	f.Add([]byte("{\"version\":1}\n{\"paused\":{\"queue\":\"a\",\"priority\":\"low\"}}\n{\"stream\":\"state\",\"subject\":\"a\",\"expires\":\"2100-01-01T00:00:00Z\"}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := (&memory.Store{}).Open(t.Context(), engine.Options{Namespace: "main"})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(context.Background())
		s, err := Import(t.Context(), bytes.NewReader(text), e)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if again, err := Export(t.Context(), e, &out); err != nil || again.Jobs != s.Jobs || again.Outcomes != s.Outcomes || again.Dead != s.Dead {
			t.Errorf("what was imported (%+v) is exported as %+v, %v", s, again, err)
		}
	})
}
