package pebble

import (
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// commitGroup executes operations in one synced batch and answers them.
func (e *Engine) commitGroup(operations []operation) {
	e.open.RLock()
	err := e.Err()
	if e.db == nil && err == nil {
		err = engine.ErrClosed
	}
	var g *group
	if err == nil {
		g = e.beginGroup(e.db)
		defer g.forget()
		for i := range operations {
			g.do(&operations[i])
		}
		err = e.write(g)
	}
	e.open.RUnlock()
	if err != nil {
		for i := range operations {
			if done := operations[i].done; done != nil {
				done(0, err)
			}
		}
		return
	}
	for _, a := range g.answers {
		if a.err != nil {
			a.seq = 0
		}
		a.done(a.seq, a.err)
	}
	if g.turned {
		e.plan()
	}
}

// write applies the batch, makes it visible, and waits until it survives a loss of
// power; it fails the engine otherwise. Jobs are handed out while the disk syncs them: a
// loss of power may then take a job that has run, but none that was confirmed, and no
// outcome without its job.
func (e *Engine) write(g *group) error {
	if err := e.Err(); err != nil { // damage was found while the batch was made
		return errors.Join(err, g.batch.Close())
	}
	if g.batch.Empty() {
		e.show(g)
		return g.batch.Close()
	}
	if err := g.writeSums(); err != nil {
		e.fail(err)
		return e.Err()
	}
	began, batch := time.Now(), g.batch // a call may outlive untilHalt, when g is reused
	if err := e.untilHalt(func() error { return e.db.ApplyNoSyncWait(batch, pebble.Sync) }); err != nil {
		e.fail(err)
		return e.Err()
	}
	e.show(g)
	if err := e.untilHalt(batch.SyncWait); err != nil {
		e.fail(err)
		return e.Err()
	}
	for _, j := range g.ended { // not before: a process that is killed may leave the job
		e.handouts.drop(handout{e.space, j.seq})
	}
	e.syncs.add(time.Since(began), len(g.answers))
	return g.batch.Close()
}

// show makes a written group visible to those who read, hand out and count.
func (e *Engine) show(g *group) {
	for key, entries := range g.index {
		if s := engine.Stream(key[3]); s != engine.State {
			e.recent[s].set(key, entries)
		}
	}
	e.publish(g)
}

// publish makes a written group visible to the consumers and the counts.
func (e *Engine) publish(g *group) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sums.apply(g)
	for _, m := range g.added {
		i, ok := g.items[m]
		if !ok {
			continue // the same group has removed it
		}
		c, _, _ := engine.ParseJob(i.subject)
		e.consumer(c).arrived(m.seq, &i)
	}
	for _, j := range g.ended {
		delete(e.hidden, j.seq)
		e.consumer(j.of).ended(j.seq)
	}
	for c, on := range g.paused {
		e.consumer(c).paused = on
		e.consumer(c).wake()
	}
}

// hide stops handing out a job that is being removed.
func (e *Engine) hide(c engine.Consumer, seq uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hidden[seq] = struct{}{}
	e.consumer(c).hide(seq)
}

// turn handles what is due: jobs whose time has come appear, messages that are too old
// are removed.
func (g *group) turn() error {
	g.turned = true
	n := g.engine.space
	start := n.key(kindTimed, 0)
	iter, err := g.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: n.timed(g.now+1, 0, 0)})
	if err != nil {
		return err
	}
	var due [][]byte
	for iter.First(); iter.Valid() && len(due) < mostOperations; iter.Next() {
		due = append(due, slices.Clone(iter.Key()))
	}
	if err := iter.Close(); err != nil {
		return err
	}
	for _, key := range due {
		if g.batch.Len() > mostBytes {
			break // the rest is due in the next batch
		}
		if err := g.lapse(key); err != nil {
			return err
		}
	}
	for _, s := range []engine.Stream{engine.Outcomes, engine.Dead} {
		if err := g.enforce(s); err != nil {
			return err
		}
	}
	return nil
}

// lapse handles what is due for one message.
func (g *group) lapse(key []byte) error {
	at, s, seq, ok := readTimed(key)
	if !ok {
		return errRecord
	}
	m := message{s, seq}
	i, found, err := g.find(m)
	if err != nil {
		return err
	}
	if !found || !i.timed || i.due != at { // it is gone
		return g.batch.Delete(key, nil)
	}
	if err := g.remove(m, "", 0); err != nil || i.target == "" {
		return err
	}
	entries, err := g.entries(engine.Jobs, i.target)
	if err == nil {
		_, err = g.add(engine.Jobs, item{subject: i.target, data: i.data, time: g.now}, entries)
	}
	return err
}

// plan sets when the store next has something to do.
func (e *Engine) plan() {
	e.open.RLock()
	defer e.open.RUnlock()
	if e.db == nil {
		return
	}
	start := e.space.key(kindTimed, 0)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(start)})
	if err != nil {
		e.fail(err)
		return
	}
	if iter.First() {
		if at, _, _, ok := readTimed(iter.Key()); ok {
			e.sooner(at)
		}
	}
	if err := iter.Close(); err != nil {
		e.fail(err)
	}
	for _, s := range []engine.Stream{engine.Outcomes, engine.Dead} {
		if age := e.age(s); age > 0 && len(e.oldest[s].line) > 0 {
			e.sooner(e.oldest[s].line[0].time + age)
		}
	}
}

// age returns how long a message of s is kept, in nanoseconds; 0 is forever.
func (e *Engine) age(s engine.Stream) int64 {
	switch s {
	case engine.Outcomes:
		return int64(e.options.OutcomeAge)
	case engine.Dead:
		return int64(e.options.DeadAge)
	case engine.Jobs, engine.State:
	}
	return 0
}
