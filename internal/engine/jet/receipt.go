package jet

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// handout is the content of a delivery's reply subject.
type handout struct {
	deliveries uint64
	seq        uint64
	stored     int64 // in nanoseconds since 1970
	waiting    uint64
}

// parseReply parses the reply subject of a delivery, which has two forms:
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<seq>.<count>.<stored>.<waiting>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<deliveries>.<seq>.<count>.<stored>.<waiting>.<random>
func parseReply(reply string) (h handout, ok bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return handout{}, false
	}
	skip := 2
	if strings.Count(rest, ".") >= 8 {
		skip = 4
	}
	for range skip {
		if _, rest, ok = strings.Cut(rest, "."); !ok {
			return handout{}, false
		}
	}
	var n [5]uint64
	for i := range n {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		if n[i], ok = number(token); !ok {
			return handout{}, false
		}
	}
	if n[0] == 0 || n[1] == 0 || n[3] > 1<<63-1 {
		return handout{}, false
	}
	return handout{deliveries: n[0], seq: n[1], stored: int64(n[3]), waiting: n[4]}, true
}

// The answers to a delivery. They must not be changed.
var (
	wordAck     = []byte("+ACK")
	wordNak     = []byte("-NAK")
	wordNakKept = []byte(`-NAK {"delay":1}`)
	wordExtend  = []byte("+WPI")
)

// receipt implements [engine.Receipt].
type receipt struct {
	taker      *taker
	reply      string
	seq        uint64
	deliveries uint64
	size       int64
	answered   atomic.Bool
}

// Ack implements [engine.Receipt].
func (r *receipt) Ack() {
	if r.end() {
		r.taker.engine.jobs.freed(r.size)
		r.taker.engine.back.ended(r.seq)
		r.taker.engine.sendAnswer(r.reply, wordAck)
	}
}

// End implements [engine.Receipt] in steps: JetStream cannot change two streams at once.
func (r *receipt) End(puts []engine.Put, done func(error)) {
	engine.EndInSteps(r.taker.engine, r, puts, done)
}

// Begin implements [engine.Receipt]. It does nothing: nodes report to each other what
// they give back, and of other deliveries it is unknown whether they had begun.
func (r *receipt) Begin() {}

// Nak implements [engine.Receipt].
func (r *receipt) Nak(delay time.Duration) {
	if !r.end() {
		return
	}
	e := r.taker.engine
	e.back.give(r.taker.consumer, r.seq, delay)
	e.sayBack(r.seq, r.deliveries, delay)
	if delay <= 0 {
		e.sendBack(r.reply)
		return
	}
	words := append(wordNak[:len(wordNak):len(wordNak)], ` {"delay":`...)
	e.sendAnswer(r.reply, append(strconv.AppendInt(words, int64(delay), 10), '}'))
}

// Extend implements [engine.Receipt].
func (r *receipt) Extend() {
	if !r.answered.Load() {
		r.taker.engine.sendAnswer(r.reply, wordExtend)
	}
}

// end marks the delivery as answered, and reports whether this is the first answer.
func (r *receipt) end() bool {
	return !r.taker.engine.closed.Load() && r.answered.CompareAndSwap(false, true)
}

// sendBack gives a delivery back at once. A server that is stopped forgets messages given
// back without a delay, and then waits for the lease. Those with a delay it stores, but
// hands them out some 10 ms later. So sendBack sends both: the delay of a nanosecond is
// stored, and the other takes effect at once.
func (e *Engine) sendBack(reply string) {
	e.sendAnswer(reply, wordNakKept)
	e.sendAnswer(reply, wordNak)
}

// sendAnswer sends an answer to a delivery. If it is lost, the lease ends.
func (e *Engine) sendAnswer(reply string, words []byte) {
	if e.closed.Load() {
		return
	}
	if err := e.conn.Publish(reply, words); err != nil {
		e.log.Debug("jet: an answer to a delivery could not be sent; its lease will end", "error", err)
	}
}
