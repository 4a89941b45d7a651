package run

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
)

// extended is a receipt that tells of each renewal of the lease.
type extended struct {
	engine.Receipt

	renewals chan struct{}
}

func (e extended) Extend() {
	select {
	case e.renewals <- struct{}{}:
	default:
	}
}

// awaitBlocked waits until a goroutine waits for a mutex in a function.
func awaitBlocked(t *testing.T, function string) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "sync.(*Mutex).Lock(") && strings.Contains(stack, function) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not wait for a mutex", function)
		}
	}
}

// A job that comes while the timer of renewal has seen that none is there, and is
// about to end, is renewed all the same.
func TestAJobThatComesAsRenewalEnds(t *testing.T) {
	t.Parallel()
	q := openNode(t, jobs.Config{Lease: 100 * time.Millisecond})
	r := &runner{queue: q, wake: make(chan struct{}, 1), left: make(chan struct{})}
	renewals := make(chan struct{}, 1)
	a := q.newAttempt(&runner{queue: q, jobs: t.Context()}, engine.Delivery{
		Message: engine.Message{Subject: "job.default.normal." + newID()}, Receipt: extended{renewals: renewals},
	})
	a.runner, a.stored = r, &record.Job{ID: a.id()}

	r.renewing = true // a timer has fired
	r.mu.Lock()
	over := make(chan struct{}, 2)
	go func() { r.renewLater(); over <- struct{}{} }() // that of the job below; ends with the lock
	awaitBlocked(t, "(*runner).renewLater(")
	go func() { r.renew(); over <- struct{}{} }() // as the timer does; the same
	awaitBlocked(t, "(*runner).renew(")
	r.all.Add(1)
	if !q.take(a) {
		t.Fatal("there is another attempt of the job")
	}
	r.mu.Unlock()
	<-over
	<-over

	select {
	case <-renewals:
	case <-time.After(20 * time.Second):
		t.Error("the lease of the job is never renewed")
	}
	close(r.left)
	r.all.Add(-1)
	q.release(a)
}
