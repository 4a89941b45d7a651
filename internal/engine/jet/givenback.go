package jet

import (
	"bytes"
	"strconv"
	"time"
)

// backSubject is where nodes tell each other what they have given back, behind
// the prefix.
const backSubject = "back"

// returned remembers up to which delivery a message is known to be given back by
// who had it. The server counts deliveries and does not tell whether one was
// given back or its taker died.
type returned struct {
	deliveries uint64
	until      time.Time // then it is forgotten
}

// givenBackFor is how long one is remembered after its delay.
const givenBackFor = 10 * time.Minute

// manyGivenBack is from how many on the old ones are looked for.
const manyGivenBack = 4096

// note notes that all deliveries of seq were given back, or were seen by who gave
// back the last.
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

// known reports whether the first deliveries of seq are known to be given back.
func (b *back) known(seq, deliveries uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given[seq].deliveries >= deliveries
}

// ended forgets seq: it has ended.
func (b *back) ended(seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.given, seq)
}

// sayBack notes that a delivery is given back, and tells the other nodes before
// the server hears of it. It may be lost: then the next one who has the message
// takes it for one whose node died.
func (e *Engine) sayBack(seq, deliveries uint64, delay time.Duration) {
	e.back.note(seq, deliveries, delay)
	if err := e.conn.Publish(e.prefix+backSubject, backWords(seq, deliveries, delay)); err != nil {
		e.log.Debug("jet: the other nodes could not be told what was given back", "error", err)
	}
}

func backWords(seq, deliveries uint64, delay time.Duration) []byte {
	w := append(strconv.AppendUint(make([]byte, 0, 48), seq, 10), ' ')
	w = append(strconv.AppendUint(w, deliveries, 10), ' ')
	return strconv.AppendInt(w, max(int64(delay), 0), 10)
}

// parseBack reads what backWords writes.
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

// hearPatience bounds the wait for what other nodes have said already.
const hearPatience = 20 * time.Millisecond

// givenBack reports whether the first deliveries of seq are known to be given back.
// What other nodes said of that before came before this delivery, but another
// goroutine takes it.
func (e *Engine) givenBack(seq, deliveries uint64) bool {
	timer := time.NewTimer(hearPatience)
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

// listen returns what is closed when something is said the next time.
func (b *back) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.news == nil {
		b.news = make(chan struct{})
	}
	return b.news
}

// heardBack takes what another node says.
func (e *Engine) heardBack(words []byte) {
	if seq, deliveries, delay, ok := parseBack(words); ok {
		e.back.note(seq, deliveries, delay)
	}
}
