package run

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
)

// Node runs the jobs of this program.
type Node struct {
	*group.Groups

	// MemberEnded reports whether the batch member that a job belongs to has ended. It is
	// set before the first job is taken.
	MemberEnded func(s *record.Job) bool

	InHand, Recording atomic.Int64

	mu       sync.Mutex
	attempts map[string]*attempt  // the attempts on this node by job id; guarded by mu
	runners  map[*runner]struct{} // the calls of Work; guarded by mu
	shut     bool                 // guarded by mu
	stops    []func()             // stop listening; written by Listen
}

// New returns a node that runs the jobs of list, and connects the two.
func New(list *jobs.Jobs) *Node {
	n := &Node{Groups: group.New(list), attempts: make(map[string]*attempt), runners: make(map[*runner]struct{})}
	n.MemberEnded = func(*record.Job) bool { return false }
	list.Above.Hand = func(id string) jobs.Hand {
		if a := n.hand(id); a != nil {
			return a
		}
		return nil
	}
	list.Above.Executors = n.executors
	return n
}

// hand returns the attempt of a job on this node, nil for none.
func (q *Node) hand(id string) *attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.attempts[id]
}

// executors returns the executors that work on a queue in this program.
func (q *Node) executors(name string) []bullpen.Executor {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []bullpen.Executor
	for r := range q.runners {
		if r.config.Queue == name {
			all = append(all, r.executor)
		}
	}
	return all
}

// Abort ends all calls of Work without waiting for their jobs, and waits for the calls to
// return.
func (q *Node) Abort() {
	q.mu.Lock()
	q.shut = true
	runners := slices.Collect(maps.Keys(q.runners))
	q.mu.Unlock()
	for _, r := range runners {
		r.abort()
	}
	for _, r := range runners {
		<-r.left
	}
	for _, stop := range q.stops {
		stop()
	}
	q.StopTaking()
}

// Listen subscribes to the messages of other nodes: canceled jobs and changed settings.
func (q *Node) Listen() error {
	if !q.Engine.Shared() {
		return nil
	}
	subscribed := q.Heard()
	subscribed["cancel"] = q.interrupt
	for subject, subscribed := range subscribed {
		stop, err := q.Engine.Listen(subject, func(_ string, data []byte) { subscribed(string(data)) })
		if err != nil {
			return err
		}
		q.stops = append(q.stops, stop)
	}
	return nil
}
