package jet

import (
	"bytes"
	"strconv"
	"time"
)

// backSubject is the subject, after the prefix, on which nodes report to each other what
// they have given back.
const backSubject = "back"

// returned records up to which delivery a message is known to have been given back by its
// taker. The server only counts deliveries, so it cannot tell that from a taker's death.
type returned struct {
	deliveries uint64
	until      time.Time // when it is forgotten
}

// givenBackFor is how long an entry is kept after its delay.
const givenBackFor = 10 * time.Minute

// manyGivenBack is the number of entries from which old ones are removed.
const manyGivenBack = 4096

// note records that all deliveries of seq were given back, or were known as given back to
// the node that gave back the last one.
func (b *back) note(seq, deliveries uint64, delay time.Duration) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.given == nil {
		b.given = map[uint64]returned{}
	}
	if len(b.given) >= max(manyGivenBack, 2*b.pruned) {
		for seq, p := range b.given {
			if now.After(p.until) {
				delete(b.given, seq)
			}
		}
		b.pruned = len(b.given)
	}
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
	b.given[seq] = returned{max(deliveries, b.given[seq].deliveries), now.Add(max(delay, 0) + givenBackFor)}
}

// known reports whether the first deliveries of seq are known to have been given back.
func (b *back) known(seq, deliveries uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given[seq].deliveries >= deliveries
}

// ended forgets seq, which has ended.
func (b *back) ended(seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.given, seq)
}

// sayBack records that a delivery is given back, and notifies the other nodes before the
// server learns of it. If the notification is lost, the next node to get the message
// concludes that the node before has died.
func (e *Engine) sayBack(seq, deliveries uint64, delay time.Duration) {
	e.back.note(seq, deliveries, delay)
	if err := e.conn.Publish(e.prefix+backSubject, backWords(seq, deliveries, delay)); err != nil {
		e.log.Debug("jet: cannot notify the other nodes of jobs that were given back", "error", err)
	}
}

func backWords(seq, deliveries uint64, delay time.Duration) []byte {
	w := append(strconv.AppendUint(make([]byte, 0, 48), seq, 10), ' ')
	w = append(strconv.AppendUint(w, deliveries, 10), ' ')
	return strconv.AppendInt(w, max(int64(delay), 0), 10)
}

// parseBack decodes what backWords encodes.
func parseBack(words []byte) (seq, deliveries uint64, delay time.Duration, ok bool) {
	fields := bytes.Split(words, []byte(" "))
	if len(fields) != 3 {
		return 0, 0, 0, false
	}
	var n [3]uint64
	for i, field := range fields {
		if n[i], ok = number(string(field)); !ok {
			return 0, 0, 0, false
		}
	}
	return n[0], n[1], time.Duration(n[2]), n[0] > 0 && n[2] <= uint64(10*365*24*time.Hour)
}

// subscribePatience bounds the wait for messages of other nodes that have arrived.
const subscribePatience = 20 * time.Millisecond

// givenBack reports whether the first deliveries of seq are known to have been given
// back. Other nodes' messages about that arrived before this delivery, but another
// goroutine handles them.
func (e *Engine) givenBack(seq, deliveries uint64) bool {
	timer := time.NewTimer(subscribePatience)
	defer timer.Stop()
	for {
		news := e.back.listen()
		if e.back.known(seq, deliveries) {
			return true
		}
		if waiting, _, err := e.backs.Pending(); err != nil || waiting == 0 {
			return e.back.known(seq, deliveries)
		}
		select {
		case <-news:
		case <-timer.C:
			return e.back.known(seq, deliveries)
		}
	}
}

// listen returns a channel that is closed by the next note.
func (b *back) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.news == nil {
		b.news = make(chan struct{})
	}
	return b.news
}

// heardBack handles a message of another node.
func (e *Engine) heardBack(words []byte) {
	if seq, deliveries, delay, ok := parseBack(words); ok {
		e.back.note(seq, deliveries, delay)
	}
}
