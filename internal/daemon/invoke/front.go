// Package invoke is the Lambda front: the part of the API of AWS Lambda that invokes
// functions. A function is a pool of the daemon. So every AWS SDK can run tasks at once
// (RequestResponse) and enqueue jobs (Event).
package invoke

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
	"github.com/bullpen-run/bullpen/job"
)

// Function describes a function.
type Function struct {
	// Refuses is why the function cannot be run at once, and what to do; empty if it
	// can.
	Refuses string
	// Timeout and Memory are the limits of the function; 0 for none.
	Timeout time.Duration
	Memory  int64
	// EventAge is how long an event may take to end; 0 for no limit.
	EventAge time.Duration
}

// Backend is the daemon as the front sees it. All methods are safe for concurrent use.
type Backend interface {
	// Function returns a function, and whether there is one of that name.
	Function(name string) (Function, bool)
	// Run runs a task on a function's workers and waits for its end. Errors are those
	// of an executor.
	Run(ctx context.Context, function string, t bullpen.Task) (bullpen.Result, error)
	// Waits records that the task parent waits for a function that it invokes, until
	// done is called. The error, with advice, means that it would wait for itself.
	Waits(parent string) (done func(), err error)
	// Enqueue stores an event as a job of the function that the job's Queue names.
	// Errors are those of a queue.
	Enqueue(ctx context.Context, j job.Job) (job.Ref, error)
}

// The largest payloads, as AWS has them.
const (
	mostPayload = 6 << 20
	mostEvent   = 1 << 20

	defaultPayload = 512 << 10
)

// Config configures a Front. Only Backend is required.
type Config struct {
	Backend Backend
	// Keys are those that callers sign with; nil accepts requests without a signature.
	Keys *sigv4.Keys
	// Account and Region are those of the functions; empty accepts all.
	Account, Region string
	// MaxEvent is the largest payload of a job in bytes; 0 is 512 KiB, as in package
	// queue. Payloads of events have at most 1 MiB.
	MaxEvent int
}

// Front serves the Invoke API. It is safe for concurrent use.
type Front struct {
	config Config
	scope  sigv4.Scope
}

// New returns a front.
func New(c Config) *Front {
	c.MaxEvent = min(cmp.Or(c.MaxEvent, defaultPayload), mostEvent)
	return &Front{config: c, scope: sigv4.Scope{Region: c.Region, Service: "lambda"}}
}

// Routes returns the routes of the front.
func (f *Front) Routes() []access.Route {
	return []access.Route{
		{Method: http.MethodPost, Pattern: "/2015-03-31/functions/{function}/invocations", Role: access.Submit, Handler: f.handler(false)},
		{Method: http.MethodPost, Pattern: "/2021-11-15/functions/{function}/response-streaming-invocations", Role: access.Submit, Handler: f.handler(true)},
	}
}

// Fallback answers requests that match no route.
func Fallback(w http.ResponseWriter, _ *http.Request) {
	f := &fault{status: http.StatusNotFound, kind: noSuchCall, message: "Only Invoke and InvokeWithResponseStream are available here: functions are the pools of bullpen.yaml, and GET /v1/pools of the HTTP API lists them."}
	f.write(w)
}

// handler returns the handler of a route.
func (f *Front) handler(streams bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &invocation{id: newID(), streams: streams}
		w.Header().Set(headerRequest, v.id)
		bad := f.read(r, v)
		if bad == nil {
			bad = f.answer(w, r, v)
		}
		if bad != nil {
			bad.write(w)
		}
	})
}

// answer invokes a function.
func (f *Front) answer(w http.ResponseWriter, r *http.Request, v *invocation) *fault {
	switch v.kind {
	case dryRun:
		w.WriteHeader(http.StatusNoContent)
		return nil
	case event:
		return f.enqueue(w, r, v)
	}
	return f.run(w, r, v)
}

// enqueue stores an event.
func (f *Front) enqueue(w http.ResponseWriter, r *http.Request, v *invocation) *fault {
	j := job.Job{Queue: v.name.function, Payload: v.payload, Meta: v.meta, Key: v.key}
	if age := v.function.EventAge; age > 0 {
		j.Deadline = time.Now().Add(age)
	}
	ref, err := f.config.Backend.Enqueue(r.Context(), j)
	if err != nil {
		return faultOf(err)
	}
	w.Header().Set(headerJob, ref.ID)
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// run runs a function and answers with its result.
func (f *Front) run(w http.ResponseWriter, r *http.Request, v *invocation) *fault {
	if v.function.Refuses != "" {
		return &fault{status: http.StatusBadRequest, kind: badValue, message: v.function.Refuses}
	}
	if parent := r.Header.Get(headerParent); parent != "" {
		done, err := f.config.Backend.Waits(parent)
		if err != nil {
			return &fault{status: http.StatusBadRequest, kind: recursive, message: err.Error()}
		}
		defer done()
	}
	t := bullpen.Task{ID: v.id, Payload: v.payload, Meta: v.meta}
	var log *tail
	if v.tail {
		log = &tail{}
		t.Observer = log
	}
	head := func() {
		w.Header().Set(headerTask, v.id)
		w.Header().Set("X-Amz-Executed-Version", latest)
	}
	out, end := &stream{w: w, head: head}, func() {}
	if v.streams {
		seen := &streamed{tail: cmp.Or(log, &tail{}), to: out}
		t.Observer, end = seen, seen.end
	}
	result, err := f.config.Backend.Run(r.Context(), v.name.function, t)
	end()
	var bad *failure
	if err != nil {
		if bad = failureOf(v, result.Stats.Ran, err); bad == nil {
			return faultOf(err)
		}
	}
	head()
	var logged string
	if log != nil {
		logged = log.result(v, &result.Stats)
	}
	if v.streams {
		out.finish(result.Payload, bad, logged)
		return nil
	}
	if logged != "" {
		w.Header().Set("X-Amz-Log-Result", logged)
	}
	if bad != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		result.Payload = bad.JSON()
	}
	send(w, http.StatusOK, result.Payload)
	return nil
}
