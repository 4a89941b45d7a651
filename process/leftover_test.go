//go:build linux

package process

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// A process finds its temporary folder as it was made, also where an earlier one had the
// same folder.
func TestTempIsFresh(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{"sh", "-c", `test -z "$(ls -A "$TMPDIR")" && test "$(stat -c %a "$TMPDIR")" = 700 && printf %s "$TMPDIR" && {}`}, Protocol: Exec, Max: 1})
	var before []string
	for _, script := range []string{
		"true", "true", "true", `touch "$TMPDIR/.left"`, "true", `chmod 500 "$TMPDIR"`, "true", `rmdir "$TMPDIR"`, `mkdir "$TMPDIR/a"`,
		`rmdir "$TMPDIR"; ln -s / "$TMPDIR"`, "true", "true", "true",
	} {
		r, err := p.Execute(context.Background(), bullpen.Task{Payload: []byte(script)})
		if err != nil {
			t.Fatalf("after %q: %v", before, err)
		}
		before = append(before, script+" in "+string(r.Payload))
	}
	folders := map[string]int{}
	for _, b := range before {
		folders[b[strings.LastIndexByte(b, ' '):]]++
	}
	if len(folders) == len(before) {
		t.Errorf("no folder was used twice: %q", before)
	}
}

// What a process says is read whether it is through at once or takes its time.
func TestEarlyAndLateWords(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{"sh", "-c", "{}"}, Protocol: Exec, Max: 1})
	for _, c := range []struct {
		script string
		want   int
	}{
		{"echo a", 2}, {"head -c 300000 /dev/zero", 300000}, {"echo a", 2}, {"sleep 0.05; head -c 300000 /dev/zero; sleep 0.05; echo a", 300002},
		{"echo a; sleep 1000 >/dev/null 2>&1 &", 2},
	} {
		r, err := p.Execute(context.Background(), bullpen.Task{Payload: []byte(c.script)})
		if err != nil || len(r.Payload) != c.want {
			t.Errorf("%s: %d bytes, %v; want %d", c.script, len(r.Payload), err, c.want)
		}
	}
}

// A large payload is read by a process that is slow to begin, and not by one that never
// does.
func TestPayloadSizes(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{"sh", "-c", `test "$TASK_NAME" = deaf || cat`}, Protocol: Exec, Max: 1})
	for _, size := range []int{0, 1, leastRoom, leastRoom + 1, 1 << 20} {
		payload := bytes.Repeat([]byte("x"), size)
		r, err := p.Execute(context.Background(), bullpen.Task{Payload: payload})
		if err != nil || !bytes.Equal(r.Payload, payload) {
			t.Errorf("%d bytes: %d came back, %v", size, len(r.Payload), err)
		}
		if _, err := p.Execute(context.Background(), bullpen.Task{Name: "deaf", Payload: payload}); err != nil {
			t.Errorf("%d bytes not read: %v", size, err)
		}
	}
}

// levelHandler counts events, when it wants them.
type levelHandler struct {
	slog.Handler
	on     *atomic.Bool
	events *atomic.Int64
}

func (h levelHandler) Enabled(context.Context, slog.Level) bool { return h.on.Load() }

func (h levelHandler) Handle(context.Context, slog.Record) error {
	h.events.Add(1)
	return nil
}

// A logger that wants events gets them again.
func TestLoggerWantsLater(t *testing.T) {
	t.Parallel()
	h := levelHandler{Handler: slog.DiscardHandler, on: new(atomic.Bool), events: new(atomic.Int64)}
	l := newLogs(slog.New(h), 0, func(*call) {})
	defer l.close()
	e := Event{Kind: Started, Time: time.Now()}
	l.put(record{event: e})
	l.close() // it has been written
	if !l.deaf(e) || l.deaf(Event{Kind: Died, Time: e.Time}) || l.deaf(Event{Kind: Started, Time: e.Time.Add(deafFor)}) {
		t.Error("events that are not wanted are to be left out for a moment, and only they")
	}
	if h.events.Load() != 0 {
		t.Error("a logger got what it does not want")
	}
	h.on.Store(true)
	l.write(record{event: Event{Kind: Started, Time: e.Time.Add(deafFor)}})
	if h.events.Load() != 1 {
		t.Error("a logger that wants events again gets none")
	}
}
