package live

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures a Hub. The zero value works.
type Config struct {
	// Bytes bounds the size of the events of all tasks together; the oldest are
	// dropped first. Default 32 MiB.
	Bytes int64
	// TaskBytes and TaskEvents bound the events kept of one task. Default 256 KiB and
	// 1000.
	TaskBytes, TaskEvents int
	// Keep is how long an ended task is kept for late followers. Default 30 s.
	Keep time.Duration
}

func (c Config) withDefaults() Config {
	c.Bytes = cmp.Or(c.Bytes, 32<<20)
	c.TaskBytes = cmp.Or(c.TaskBytes, 256<<10)
	c.TaskEvents = cmp.Or(c.TaskEvents, 1000)
	c.Keep = cmp.Or(c.Keep, 30*time.Second)
	return c
}

func (c Config) check() error {
	var errs []error
	for _, b := range []struct {
		name  string
		value int64
	}{{"Bytes", c.Bytes}, {"TaskBytes", int64(c.TaskBytes)}, {"TaskEvents", int64(c.TaskEvents)}, {"Keep", int64(c.Keep)}} {
		if b.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: use a positive number, or 0 for the default", b.name, b.value))
		}
	}
	return errors.Join(errs...)
}

// shards is the number of parts of the table of tasks, each with its own lock.
const shards = 32

// attemptsKept is how many ended attempts of one task are kept.
const attemptsKept = 4

// Hub tracks the tasks that run here, and for a while those that ran here. All
// methods are safe for concurrent use.
type Hub struct {
	config Config
	seed   maphash.Seed
	shards [shards]shard
	used   atomic.Int64 // bytes of events

	mu   sync.Mutex
	kept []*story    // ended stories, oldest first; guarded by mu
	old  *time.Timer // expires kept stories; nil while there are none; guarded by mu
}

// shard is a part of the table.
type shard struct {
	mu   sync.Mutex
	runs map[key]*story      // guarded by mu
	kept map[string][]*story // ended attempts of jobs, oldest first; guarded by mu
}

// key identifies a running task. Ephemeral tasks are kept apart from jobs, because
// callers choose their ids.
type key struct {
	id        string
	ephemeral bool
}

// ErrLive means that a task with that id is already running.
var ErrLive = errors.New("a task with this id is already running")

// New returns a Hub. The error lists all faults of c.
func New(c Config) (*Hub, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	h := &Hub{config: c.withDefaults(), seed: maphash.MakeSeed()}
	for i := range h.shards {
		h.shards[i].runs = map[key]*story{}
	}
	return h, nil
}

func (h *Hub) shard(id string) *shard {
	return &h.shards[maphash.String(h.seed, id)%shards]
}

// Where returns the pool in which a task with that id runs here: a job, or else an
// ephemeral task. The id is the one that its worker knows.
func (h *Hub) Where(id string) (pool string, ok bool) {
	p := h.shard(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.runs[key{id: id}]
	if s == nil {
		s = p.runs[key{id: id, ephemeral: true}]
	}
	if s == nil {
		return "", false
	}
	return s.pool, true
}

// Follow returns a feed of a job that runs here or did so recently, which begins with
// the kept events later than after. It returns nil if the job is unknown, or has
// ended and has no events left. The feed must be closed.
func (h *Hub) Follow(id string, after Position) *Feed {
	p := h.shard(id)
	p.mu.Lock()
	s, kept := p.runs[key{id: id}], slices.Clone(p.kept[id])
	p.mu.Unlock()
	var past []Event
	for _, k := range kept {
		k.mu.Lock()
		past = k.past(past, after)
		k.mu.Unlock()
	}
	if s == nil {
		return finished(past)
	}
	return s.follow(past, after)
}

// begin adds s to the running tasks. An ephemeral task is refused while another task
// with its id runs. A job is not: callers do not choose its id, and a new attempt may
// begin before a lost one has ended.
func (h *Hub) begin(s *story) error {
	p := h.shard(s.key.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.key.ephemeral && (p.runs[s.key] != nil || p.runs[key{id: s.key.id}] != nil) {
		return fmt.Errorf("%w: %s", ErrLive, s.key.id)
	}
	p.runs[s.key] = s
	return nil
}

// drop removes s from the running tasks.
func (h *Hub) drop(s *story) {
	p := h.shard(s.key.id)
	p.mu.Lock()
	if p.runs[s.key] == s {
		delete(p.runs, s.key)
	}
	p.mu.Unlock()
}

// end moves s from the running to the kept stories, if it has events.
func (h *Hub) end(s *story) {
	if s.key.ephemeral || !s.end() {
		h.drop(s)
		return
	}
	var extra *story
	p := h.shard(s.key.id)
	p.mu.Lock()
	if p.runs[s.key] == s {
		delete(p.runs, s.key)
	}
	if p.kept == nil {
		p.kept = map[string][]*story{}
	}
	all := append(p.kept[s.key.id], s)
	if len(all) > attemptsKept {
		extra = all[0]
		all = slices.Delete(all, 0, 1)
	}
	p.kept[s.key.id] = all
	p.mu.Unlock()
	if extra != nil {
		extra.forget() // its entry in h.kept expires later
	}
	h.keep(s)
}

// keep schedules s to be forgotten.
func (h *Hub) keep(s *story) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.until = time.Now().Add(h.config.Keep)
	h.kept = append(h.kept, s)
	if h.old == nil {
		h.old = time.AfterFunc(h.config.Keep, h.expire)
	}
}

// expire forgets expired stories. It runs on a timer while there are kept ones.
func (h *Hub) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for len(h.kept) > 0 && !h.kept[0].until.After(now) {
		h.forgetFirst()
	}
	if len(h.kept) == 0 {
		h.kept, h.old = nil, nil
		return
	}
	h.old.Reset(max(h.kept[0].until.Sub(now), time.Second))
}

// forgetFirst forgets the story that was kept longest. h.mu is held.
func (h *Hub) forgetFirst() {
	s := h.kept[0]
	h.kept[0] = nil
	h.kept = h.kept[1:]
	p, id := h.shard(s.key.id), s.key.id
	p.mu.Lock()
	if i := slices.Index(p.kept[id], s); i >= 0 {
		rest := slices.Delete(p.kept[id], i, i+1)
		if len(rest) == 0 {
			delete(p.kept, id)
		} else {
			p.kept[id] = rest
		}
	}
	p.mu.Unlock()
	s.forget()
}

// use counts bytes of events, and drops kept stories if the limit is exceeded.
func (h *Hub) use(bytes int) {
	if h.used.Add(int64(bytes)); bytes <= 0 || !h.over() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.over() && len(h.kept) > 0 {
		h.forgetFirst()
	}
}

func (h *Hub) over() bool { return h.used.Load() > h.config.Bytes }
