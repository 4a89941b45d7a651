package batch

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// roster counts the members of one batch in this program.
type roster struct {
	batches *Batches
	id      string
	ready   chan struct{} // closed by isReady when the record was read, or is not there
	gone    chan struct{} // closed when the batch is counted here no more

	once sync.Once

	mu       sync.Mutex
	record   *record.Batch         // the newest that is known, nil before ready; guarded by mu
	chunks   map[int]*record.Chunk // guarded by mu
	changed  map[int]bool          // the chunks that are not stored as they are; guarded by mu
	count    [record.Fates]int     // guarded by mu
	first    string                // the id of the job that failed first, as far as is known; guarded by mu
	stored   bool                  // a chunk of this run may be in the store; guarded by mu
	told     bool                  // it is among those that the next look is for; guarded by mu
	advances bool                  // a goroutine does what is due; guarded by mu
	cancels  bool                  // this node is to cancel the members; guarded by mu
	surveys  bool                  // a goroutine looks for members; guarded by mu
	left     bool                  // gone is closed; guarded by mu

	progress bool          // something ended since the last tick; guarded by mu
	lookAt   time.Time     // when to look for members that are missing; guarded by mu
	quiet    time.Duration // the pause before the look after that; guarded by mu
	shownAt  time.Time     // when progress was last told; guarded by mu
}

// The pauses between looks for members of a batch that makes no progress. The first
// batch a node finds at its start is looked at at once.
const (
	firstQuiet = 5 * time.Second
	lastQuiet  = 5 * time.Minute
)

func newRoster(b *Batches, id string) *roster {
	return &roster{
		batches: b, id: id, ready: make(chan struct{}), gone: make(chan struct{}),
		chunks: make(map[int]*record.Chunk), changed: make(map[int]bool), quiet: firstQuiet, lookAt: time.Now().Add(firstQuiet),
	}
}

// note counts the end of a member: that of the last job of its chain.
func (t *roster) note(index int, f record.Fate, id string) {
	if index < 0 || index >= job.MostMembers {
		return
	}
	t.mu.Lock()
	if t.set(index, f, id) {
		t.changed[index/record.ChunkMembers] = true
		t.tell()
	}
	t.mu.Unlock()
	t.advance()
}

// set counts a member that has ended. It is called with mu held.
func (t *roster) set(index int, f record.Fate, job string) bool {
	c := t.chunks[index/record.ChunkMembers]
	if c == nil {
		c = new(record.Chunk)
		t.chunks[index/record.ChunkMembers] = c
	}
	if !c.Set(index%record.ChunkMembers, f) {
		return false
	}
	t.count[f]++
	t.progress = true
	if f == record.FateFailed && t.first == "" {
		t.first = job
	}
	return true
}

// merge counts what another run of a node has counted.
func (t *roster) merge(number int, other *record.Chunk, created time.Time) {
	t.mu.Lock()
	if t.record != nil && t.record.Created.UnixMicro() == created.UnixMicro() {
		c := t.chunks[number]
		if c == nil {
			c = new(record.Chunk)
			t.chunks[number] = c
		}
		c.NewIn(other, func(i int, f record.Fate) { t.set(number*record.ChunkMembers+i, f, "") })
	}
	t.mu.Unlock()
	t.advance()
}

// tell has the next look be for t too. It is called with mu held.
func (t *roster) tell() {
	if !t.told {
		t.told = true
		t.batches.tell(t)
	}
}

// learn takes in a record that was read or stored.
func (t *roster) learn(r *record.Batch) {
	t.mu.Lock()
	if !t.left && (t.record == nil || r.Seq > t.record.Seq) {
		t.record = r
		if t.first == "" {
			t.first = r.FirstFailed
		}
	}
	t.mu.Unlock()
	t.isReady()
	t.advance()
}

func (t *roster) isReady() { t.once.Do(func() { close(t.ready) }) }

// ended is how many members have. It is called with mu held.
func (t *roster) ended() int {
	n := 0
	for _, c := range t.count {
		n += c
	}
	return n
}

// info tells what is counted; not ok says that the batch is not there.
func (t *roster) info() (i job.BatchInfo, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil {
		return job.BatchInfo{}, false
	}
	i = t.record.Info()
	if t.record.Ended.IsZero() {
		t.counted(&i)
	}
	return i, true
}

// counted puts what is counted into i. It is called with mu held.
func (t *roster) counted(i *job.BatchInfo) {
	i.OK, i.Failed, i.Canceled, i.Lost = t.count[record.FateOK], t.count[record.FateFailed], t.count[record.FateCanceled], t.count[record.FateLost]
	i.Ended, i.FirstFailed = t.ended(), t.first
	i.Total = max(i.Total, i.Ended)
}

// has reports whether a member has ended.
func (t *roster) has(index int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.chunks[index/record.ChunkMembers]
	return c != nil && c.Ended.Has(index%record.ChunkMembers)
}

// missing gives the members that have not ended, of those that there may be.
func (t *roster) missing() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil {
		return nil
	}
	var all []int
	for i := range t.record.End() {
		if c := t.chunks[i/record.ChunkMembers]; c == nil || !c.Ended.Has(i%record.ChunkMembers) {
			all = append(all, i)
		}
	}
	return all
}

// A duty is one thing that is to be done for a batch, again until it succeeds.
type duty func(ctx context.Context, t *roster) error

// advance does what is due, in a goroutine of its own, where none does so already.
func (t *roster) advance() {
	t.mu.Lock()
	if t.advances || t.due() == nil {
		t.mu.Unlock()
		return
	}
	t.advances = true
	t.mu.Unlock()
	t.batches.Spawn(t.doDue) // ends when nothing is due, at the latest with live or the store
}

func (t *roster) doDue() {
	q := t.batches
	wait := jobs.FirstPause
	for {
		t.mu.Lock()
		do := t.due()
		t.advances = do != nil
		t.mu.Unlock()
		if do == nil {
			return
		}
		err := do(q.Live, t)
		if err == nil {
			wait = jobs.FirstPause
			continue
		}
		if q.Hopeless(err) || !q.PauseFor(wait) {
			return
		}
		q.Journal.Emit(job.Event{Kind: job.NotKept, Batch: t.id, Text: "what is due for a batch: " + err.Error()})
		wait = min(2*wait, jobs.LastPause)
	}
}

// due returns what is to be done next, nil for nothing. It is called with mu held.
func (t *roster) due() duty {
	r := t.record
	switch {
	case r == nil || t.left:
		return nil
	case r.Final():
		return leave
	case !r.Ended.IsZero():
		return conclude
	case r.Failed != nil && !r.FailedDone && t.count[record.FateFailed] > 0:
		return tellFailure
	case r.State != job.BatchOpen && t.ended() >= r.Total:
		return recordEnd
	case r.State == job.BatchCanceled && t.cancels:
		return cancelMembers
	default:
		return nil
	}
}
