package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/worker"
)

// handlers are what the workers of these tests can do.
func handlers() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{
		"echo":   func(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil },
		"mark":   mark,
		"nest":   nest,
		"hold":   hold,
		"flaky":  flaky,
		"trace":  func(_ context.Context, t bullpen.Task) ([]byte, error) { return []byte(t.Meta["traceparent"]), nil },
		"lambda": lambda,
		"tell":   func(_ context.Context, _ bullpen.Task) ([]byte, error) { return []byte(os.Getenv("TELL")), nil },
	}
}

// lambda does what the field "do" of its event says, and else returns the event with
// the metadata that a function gets.
func lambda(ctx context.Context, t bullpen.Task) ([]byte, error) {
	var e struct{ Do, File string }
	if err := json.Unmarshal(t.Payload, &e); err != nil {
		return nil, err
	}
	switch e.Do {
	case "fail":
		return nil, bullpen.Fail("no such file", true)
	case "panic":
		panic("at the disco")
	case "exit":
		os.Exit(3)
	case "sleep":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case "hold":
		return hold(ctx, bullpen.Task{ID: t.ID, Payload: []byte(e.File)})
	case "log":
		worker.Logger(ctx).Info("it is logged")
	}
	return json.Marshal(map[string]any{"event": json.RawMessage(t.Payload), "meta": t.Meta})
}

// flaky does in its first attempt what its payload says, and says in the next in
// which trace it runs.
func flaky(_ context.Context, t bullpen.Task) ([]byte, error) {
	if queue.AttemptOf(t).Attempt > 1 {
		return []byte(t.Meta["traceparent"]), nil
	}
	if string(t.Payload) == "die" {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return nil, err
		}
		if err := self.Kill(); err != nil {
			return nil, err
		}
		select {} // until it is dead
	}
	return nil, errors.New("not yet")
}

// marked is what a job of "mark" does: it notes its start in a file, and runs for
// a while.
type marked struct {
	File string
	Run  time.Duration
}

// mark notes that it runs, by one line that no other can tear.
func mark(ctx context.Context, t bullpen.Task) ([]byte, error) {
	var m marked
	if err := json.Unmarshal(t.Payload, &m); err != nil {
		return nil, err
	}
	if err := note(m.File, t.ID, queue.AttemptOf(t).Attempt); err != nil {
		return nil, err
	}
	timer := time.NewTimer(m.Run)
	defer timer.Stop()
	select {
	case <-timer.C:
		return []byte("done"), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func note(file, id string, attempt int) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(id + " " + strconv.Itoa(attempt) + " " + strconv.Itoa(os.Getpid()) + "\n")
	return errors.Join(err, f.Close())
}

// hold says that it runs, and runs until the file that is its payload is there.
func hold(ctx context.Context, t bullpen.Task) ([]byte, error) {
	name := string(t.Payload)
	if err := note(name+".begun", t.ID, 1); err != nil {
		return nil, err
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return []byte("held"), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// nested is a job of "nest": it submits itself to the first of the pools, with one
// fewer, and waits.
type nested struct {
	URL      string
	Pools    []string
	Way      string // "jobs" or "run"
	Priority string
	Quit     time.Duration // gives up waiting then, counted from when the leaf runs where there is one; 0 never
	Leaf     string        // the last one runs until this file is there; empty not at all
}

func nest(ctx context.Context, t bullpen.Task) ([]byte, error) {
	var n nested
	if err := json.Unmarshal(t.Payload, &n); err != nil {
		return nil, err
	}
	switch {
	case len(n.Pools) == 0 && n.Leaf != "":
		return hold(ctx, bullpen.Task{ID: t.ID, Payload: []byte(n.Leaf)})
	case len(n.Pools) == 0:
		return []byte("0"), nil
	}
	to := n.Pools[0]
	n.Pools = n.Pools[1:]
	body, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("%s/v1/pools/%s/%s?task=nest", n.URL, to, n.Way)
	if n.Way == "jobs" {
		url += "&wait=1m&attempts=1&priority=" + n.Priority
	}
	if n.Quit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go n.quit(ctx, cancel) // ends with ctx
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Bullpen-Parent", t.ID)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, bullpen.Fail(fmt.Sprintf("%d: %s", answer.StatusCode, text), false)
	}
	below, err := strconv.Atoi(string(text))
	return []byte(strconv.Itoa(below + 1)), err
}

// quit cancels the waiting when it has lasted for Quit.
func (n *nested) quit(ctx context.Context, cancel func()) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n.Leaf != "" && !exists(n.Leaf+".begun") && ctx.Err() == nil {
		<-tick.C
	}
	select {
	case <-time.After(n.Quit):
		cancel()
	case <-ctx.Done():
	}
}
