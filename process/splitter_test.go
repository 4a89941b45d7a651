//go:build unix

package process

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// A stream that floods is looked at in part; every line is taken or counted, and
// the last ones of standard error are kept.
func TestFloodIsCounted(t *testing.T) {
	t.Parallel()
	p := &Pool{logs: &logs{queue: make(chan record, 100)}}
	s := newSplitter(&worker{pool: p, flight: make([]*call, 1)}, nil, newTail(), "stderr")
	s.flood = true
	text := strings.Repeat("line\n", 999) + "last\nbegin"
	s.took([]byte(text), time.Now())
	taken := len(p.logs.queue)
	if taken != floodLines || p.logs.lost.Load() != uint64(1000-taken) {
		t.Errorf("%d lines of 1000 are taken, %d counted as lost", taken, p.logs.lost.Load())
	}
	if s.tail.last() != "last" || string(s.line) != "begin" {
		t.Errorf("the last line is %q, %q goes on", s.tail.last(), s.line)
	}
	if s.took([]byte(" end\nx"), time.Now()); s.tail.last() != "begin end" || string(s.line) != "x" {
		t.Errorf("the last line is %q, %q goes on", s.tail.last(), s.line)
	}
}

// What a dead worker has left behind may print for ever: that holds nobody up.
func TestFloodThatOutlivesTheWorker(t *testing.T) {
	t.Parallel()
	p := open(t, Config{Command: []string{self()}, Max: 1})
	do(t, p, "detach-loudly", "")
	began := time.Now()
	_, err := p.Execute(within(t, 60*time.Second), bullpen.Task{Name: "selfkill", Payload: []byte("9")})
	_ = wantOutcome(t, err, bullpen.Crashed)
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("the outcome came after %v", d)
	}
	if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "pid"}); err != nil || errors.Is(err, bullpen.ErrStart) {
		t.Errorf("the next task: %v", err)
	}
}
