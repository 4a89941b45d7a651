package invoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// stage is a backend whose functions end as outcomes says.
type stage struct {
	mu   sync.Mutex
	ran  []bullpen.Task // guarded by mu
	jobs []job.Job      // guarded by mu
	full error          // what Enqueue returns; guarded by mu
	wait int            // how many tasks wait; guarded by mu
	held int            // how many waited when a function ran; guarded by mu
}

var functionsOfStage = map[string]Function{
	"echo":  {Timeout: 3 * time.Second, Memory: 128 << 20, EventAge: time.Hour},
	"slow":  {Timeout: 3 * time.Second},
	"quiet": {Refuses: "set ephemeral: true"},
}

// outcomes are what functions end with, besides those that return their payload.
var outcomes = map[string]error{
	"fails":    &bullpen.TaskError{Outcome: bullpen.Failed, Type: "ValueError", Message: "no <such> file", Stack: "one\n  two\n", ExitCode: -1},
	"bare":     &bullpen.TaskError{Outcome: bullpen.Failed, Task: "bare", ExitCode: -1},
	"slow":     &bullpen.TaskError{Outcome: bullpen.Timeout, ExitCode: -1},
	"slower":   &bullpen.TaskError{Outcome: bullpen.Timeout, ExitCode: -1},
	"exits":    &bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: 3},
	"leaves":   &bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: 0},
	"killed":   &bullpen.TaskError{Outcome: bullpen.Crashed, ExitCode: -1, Signal: "killed"},
	"eats":     &bullpen.TaskError{Outcome: bullpen.Memory, ExitCode: -1, Signal: "killed"},
	"wordy":    &bullpen.TaskError{Outcome: bullpen.Output, Message: "too much", ExitCode: -1},
	"gone":     &bullpen.TaskError{Outcome: bullpen.Lost, ExitCode: 1},
	"lost":     &bullpen.TaskError{Outcome: bullpen.Lost, ExitCode: -1},
	"broken":   fmt.Errorf("%w: no such program", bullpen.ErrStart),
	"nameless": fmt.Errorf("%w: \"x\"", bullpen.ErrUnknownTask),
	"crowded":  bullpen.ErrOverloaded,
	"ends":     bullpen.ErrClosed,
	"refused":  fmt.Errorf("%w: two lines", bullpen.ErrRefused),
	"odd":      errors.New("the moon is full"),
}

func (s *stage) Function(name string) (Function, bool) {
	f, ok := functionsOfStage[name]
	return f, ok || outcomes[name] != nil
}

func (s *stage) Waits(parent string) (func(), error) {
	if parent == "deep" {
		return nil, errors.New("it would wait for itself: raise helpers")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wait--
	}, nil
}

func (s *stage) Run(_ context.Context, function string, t bullpen.Task) (bullpen.Result, error) {
	s.mu.Lock()
	s.held = s.wait
	s.ran = append(s.ran, t)
	s.mu.Unlock()
	r := bullpen.Result{Stats: bullpen.Stats{Ran: 1500 * time.Microsecond, PeakMemory: 30<<20 + 1}}
	if t.Observer != nil {
		t.Observer.Progress(0.5, "half")
		for n := range 200 {
			t.Observer.Log(bullpen.LogLine{Text: fmt.Sprintf("line %03d %s", n, strings.Repeat("x", 90))})
		}
	}
	if err := outcomes[function]; err != nil {
		return r, err
	}
	r.Payload = t.Payload
	return r, nil
}

func (s *stage) Enqueue(_ context.Context, j job.Job) (job.Ref, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		return job.Ref{}, s.full
	}
	s.jobs = append(s.jobs, j)
	return job.Ref{ID: "01JOB"}, nil
}

// handlerOf returns the front as a handler.
func handlerOf(f *Front) http.Handler {
	mux := http.NewServeMux()
	for _, r := range f.Routes() {
		mux.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	mux.HandleFunc("/", Fallback)
	return mux
}

// call invokes a function by its name in the path.
func call(h http.Handler, name, body string, headers ...string) *httptest.ResponseRecorder {
	return request(h, "/2015-03-31/functions/"+name+"/invocations", body, headers...)
}

func request(h http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
