package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bullpen-run/bullpen/internal/engine"
)

const (
	// walkPatience bounds a walk if its caller sets no deadline.
	walkPatience = time.Minute
	// walkBytes is the approximate size of the answers under way at a time: walkMost
	// messages at most and walkLeast at least.
	walkBytes = 64 << 20
	walkMost  = 128
	walkLeast = 4
	// hopAfter is after how many consecutive numbers without a message the server is
	// asked for the next message, instead of for each number. hopSpan is how many numbers
	// are skipped first when walking backwards.
	hopAfter = 64
	hopSpan  = 1024
)

// walker is one call of Walk. It requests each message by its number, with many questions
// under way. The server's own batches only go forward, and before each one the server
// would count the rest of the stream, which takes tens of milliseconds in a large stream
// with gaps.
type walker struct {
	engine *Engine
	stream engine.Stream
	back   bool
	first  uint64 // of the stream
	last   uint64

	sub   *nats.Subscription
	inbox string
	// asked and answered count questions. base is the sequence number of question baseAt;
	// each later question is about the next number.
	asked, answered int
	base            uint64
	baseAt          int
	early           map[int]*nats.Msg // answers that came before those to earlier questions
	misses          int               // consecutive numbers without a message
}

// Walk implements [engine.Engine].
func (e *Engine) Walk(ctx context.Context, s engine.Stream, w engine.Walk, visit func(engine.Message) bool) (next uint64, err error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, walkPatience)
		defer cancel()
	}
	if e.closed.Load() {
		return w.From, engine.ErrClosed
	}
	if !e.connected.Load() {
		return w.From, e.away()
	}
	info, err := e.streamInfo(ctx, s)
	if err != nil {
		return w.From, err
	}
	k := &walker{
		engine: e, stream: s, back: w.Back, first: max(info.State.FirstSeq, 1), last: info.State.LastSeq,
		inbox: e.conn.NewInbox() + ".", early: map[int]*nats.Msg{},
	}
	k.base = max(w.From, k.first)
	if w.Back {
		if k.base = k.last; w.From > 0 {
			k.base = min(w.From, k.last)
		}
	}
	if k.sub, err = e.conn.SubscribeSync(k.inbox + "*"); err != nil {
		return w.From, e.trouble("reading from "+e.addresses[s].name, err)
	}
	defer k.sub.Unsubscribe()          //nolint:errcheck // It fails when the connection is gone, and the subscription with it.
	_ = k.sub.SetPendingLimits(-1, -1) // bounded by the number of questions
	largest := w.Largest
	if largest <= 0 {
		largest = 1 << 20
	}
	return k.run(ctx, min(max(walkBytes/largest, walkLeast), walkMost), visit)
}

// run walks with abreast questions under way.
func (k *walker) run(ctx context.Context, abreast int, visit func(engine.Message) bool) (next uint64, err error) {
	for {
		for k.misses < hopAfter && k.asked-k.answered < abreast && k.at(k.asked) != 0 {
			if err := k.ask(); err != nil {
				return k.at(k.answered), err
			}
		}
		if k.asked == k.answered {
			if k.misses < hopAfter {
				return 0, nil
			}
			if at, err := k.hop(ctx); err != nil || at == 0 {
				return at, err
			}
			continue
		}
		m, there, err := k.answer(ctx)
		if err != nil {
			return k.at(k.answered), err
		}
		k.answered++
		if !there {
			k.misses++
			continue
		}
		k.misses = 0
		if !visit(m) {
			return k.at(k.answered), nil
		}
	}
}

// at returns the sequence number that a question is about, 0 behind the end.
func (k *walker) at(question int) uint64 {
	n := uint64(question - k.baseAt)
	switch {
	case k.back && (k.base < k.first || n > k.base-k.first):
		return 0
	case k.back:
		return k.base - n
	case k.base+n > k.last:
		return 0
	default:
		return k.base + n
	}
}

func (k *walker) subject() string {
	if k.engine.config.Replicas > 1 {
		return k.engine.addresses[k.stream].leader // other replicas may lack the newest messages
	}
	return k.engine.addresses[k.stream].direct
}

func (k *walker) ask() error {
	question := append(strconv.AppendUint([]byte(`{"seq":`), k.at(k.asked), 10), '}')
	if err := k.engine.conn.PublishRequest(k.subject(), k.inbox+strconv.Itoa(k.asked), question); err != nil {
		return k.engine.trouble("reading from "+k.engine.addresses[k.stream].name, err)
	}
	k.asked++
	return nil
}

// answer waits for the answer to the next question, whether it has a message or not.
// Answers of several servers may come in any order.
func (k *walker) answer(ctx context.Context) (r engine.Message, there bool, err error) {
	m := k.early[k.answered]
	delete(k.early, k.answered)
	for m == nil {
		came, err := k.sub.NextMsgWithContext(ctx)
		if err != nil {
			return r, false, k.engine.trouble("reading from "+k.engine.addresses[k.stream].name, err)
		}
		n, err := strconv.Atoi(came.Subject[len(k.inbox):])
		switch {
		case err != nil || n < k.answered || n >= k.asked:
			return r, false, fmt.Errorf("jet: unexpected answer of the server: %q", came.Subject)
		case n == k.answered:
			m = came
		default:
			k.early[n] = came
		}
	}
	r, err = k.read(m)
	if errors.Is(err, engine.ErrNotFound) {
		return r, false, nil
	}
	return r, err == nil, err
}

func (k *walker) read(m *nats.Msg) (engine.Message, error) {
	if k.engine.config.Replicas > 1 {
		return k.engine.leaderMessage(k.stream, m)
	}
	if status := first(m.Header, "Status"); status != "" {
		return engine.Message{}, k.engine.refused(k.stream, status, first(m.Header, "Description"))
	}
	return k.engine.message(k.stream, m)
}

// hop crosses a gap of the stream: to the next message, or when walking backwards to near
// the next one. It returns 0 if there is none.
func (k *walker) hop(ctx context.Context) (uint64, error) {
	at := k.at(k.answered)
	if at != 0 && k.back {
		var err error
		if at, err = k.hopBack(ctx, at); err != nil {
			return at, err
		}
	} else if at != 0 {
		next, err := k.next(ctx, at)
		if err != nil {
			return at, err
		}
		at = next
	}
	k.base, k.baseAt, k.misses = at, k.answered, 0
	return at, nil
}

// hopBack skips numbers below at, more each time, until it finds one with a message.
func (k *walker) hopBack(ctx context.Context, at uint64) (uint64, error) {
	for span := uint64(hopSpan); ; {
		low := k.first
		if at >= k.first+span {
			low = at - span
		}
		next, err := k.next(ctx, low)
		switch {
		case err != nil:
			return at, err
		case next != 0 && next <= at && at-low <= hopSpan:
			return at, nil
		case next != 0 && next <= at:
			span = max(span/4, hopSpan) //nolint:mnd // less than it grew, or it would never fit
		case low <= k.first:
			return 0, nil
		default:
			at, span = low-1, span*4 //nolint:mnd // see above
		}
	}
}

// next returns the first number from at on that has a message, 0 for none.
func (k *walker) next(ctx context.Context, at uint64) (uint64, error) {
	question := append(strconv.AppendUint([]byte(`{"next_by_subj":">","seq":`), at, 10), '}')
	m, err := k.engine.ask(ctx, k.subject(), question)
	if err != nil {
		return 0, err
	}
	r, err := k.read(m)
	if errors.Is(err, engine.ErrNotFound) {
		return 0, nil
	}
	return r.Seq, err
}

// Matching implements [engine.Engine]. The server counts before it sends a batch.
func (e *Engine) Matching(ctx context.Context, s engine.Stream, subject string) (int64, error) {
	question := append(append([]byte(`{"next_by_subj":"`), e.prefix+subject...), `","seq":1,"batch":1,"max_bytes":1}`...)
	m, err := e.ask(ctx, e.addresses[s].direct, question)
	if err != nil {
		return 0, err
	}
	switch status := first(m.Header, "Status"); status {
	case "":
	case "404":
		return 0, nil
	default:
		return 0, e.refused(s, status, first(m.Header, "Description"))
	}
	more, ok := number(first(m.Header, "Nats-Num-Pending"))
	if !ok {
		return 0, fmt.Errorf("jet: the server's answer about %s has no count: %q", s, m.Header)
	}
	return int64(more) + 1, nil
}
