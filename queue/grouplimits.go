package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// GroupLimits bound the jobs of one group of a queue. The zero value is no limit.
type GroupLimits struct {
	// Concurrency is how many jobs of the group run at the same time, on all nodes
	// and of all priorities together; 0 is no limit.
	Concurrency int
	// Rate is how many begin in a second, on average; 0 is no limit. Burst is how
	// many may begin at once after a pause; 0 is Rate, at least 1.
	Rate  float64
	Burst int
}

const (
	mostConcurrency = 1 << 20
	mostRate        = 1e6
	leastRate       = 1.0 / (24 * 3600)
	longestGroup    = 256
)

// Check reports every fault of l at once.
func (l GroupLimits) Check() error {
	var errs []error
	if l.Concurrency < 0 || l.Concurrency > mostConcurrency {
		errs = append(errs, fmt.Errorf("Concurrency is %d: use a number from 1 to %d, or 0 for no limit", l.Concurrency, mostConcurrency))
	}
	if l.Rate != 0 && !(l.Rate >= leastRate && l.Rate <= mostRate) {
		errs = append(errs, fmt.Errorf("Rate is %v jobs a second: use one from %.3g (one a day) to %.0f, or 0 for no limit", l.Rate, leastRate, mostRate))
	}
	if l.Burst < 0 || l.Burst > mostConcurrency {
		errs = append(errs, fmt.Errorf("Burst is %d: use a number from 1 to %d, or 0 for as many as begin in a second", l.Burst, mostConcurrency))
	}
	if l.Burst > 0 && l.Rate == 0 {
		errs = append(errs, errors.New("Burst is set without Rate: set both, or none"))
	}
	return errors.Join(errs...)
}

// burst is how many may begin at once.
func (l GroupLimits) burst() float64 {
	if l.Burst > 0 {
		return float64(l.Burst)
	}
	return max(1, math.Ceil(l.Rate))
}

// checkGroup says what is wrong with the name of a group.
func checkGroup(group string) error {
	if len(group) > longestGroup {
		return fmt.Errorf("Group has %d bytes: use %d at most, for example a hash of it", len(group), longestGroup)
	}
	return nil
}

// limitsSubject is where the limits of a group lie; those of an empty one are of
// all groups that have none of their own.
func limitsSubject(queue, group string) string { return "set.lim." + queue + "." + groupToken(group) }

func groupToken(group string) string {
	sum := sha256.Sum256([]byte(group))
	return hex.EncodeToString(sum[:16])
}

const (
	limitGroup = iota + 1
	limitConcurrency
	limitRate
	limitBurst
)

// encode returns the record of l for a group, which stands on subject.
func (l GroupLimits) encode(subject, group string) []byte {
	w := newRecord(64)
	w.text(limitGroup, group)
	w.number(limitConcurrency, uint64(l.Concurrency))
	if l.Rate > 0 {
		w.number(limitRate, math.Float64bits(l.Rate))
	}
	w.number(limitBurst, uint64(l.Burst))
	return w.seal(subject)
}

// decodeLimits reads such a record.
func decodeLimits(subject string, b []byte) (group string, l GroupLimits, err error) {
	err = readRecord(subject, b, func(f field) error {
		switch f.tag {
		case limitGroup:
			group = string(f.v)
		case limitConcurrency:
			return f.into(&l.Concurrency)
		case limitRate:
			v, err := f.number()
			l.Rate = math.Float64frombits(v)
			return err
		case limitBurst:
			return f.into(&l.Burst)
		}
		return nil
	})
	if err == nil {
		if fault := l.Check(); fault != nil {
			err = fmt.Errorf("%w: %w", errCorrupt, fault)
		}
	}
	if err != nil {
		return "", GroupLimits{}, fmt.Errorf("limits of a group: %w", err)
	}
	return group, l, nil
}

// SetGroupLimits sets the limits of one group of a queue, on all nodes and at
// once, in place of what WorkConfig.Group says; what runs goes on. With an empty
// group it sets those of all groups that have none of their own. They stay until
// they are set anew or reset. It costs one message to the store and one sync.
func (q *Queue) SetGroupLimits(ctx context.Context, queue, group string, l GroupLimits) error {
	if err := errors.Join(checkToken("queue", queue), checkGroup(group), l.Check()); err != nil {
		return fmt.Errorf("the limits of group %q are not valid: %w", group, err)
	}
	subject := limitsSubject(queue, group)
	err := q.put(ctx, engine.Put{Stream: engine.State, Subject: subject, Data: l.encode(subject, group), Durable: true})
	if err != nil {
		return err
	}
	return q.limitsChanged(ctx, queue)
}

// ResetGroupLimits takes back what SetGroupLimits has set for a group, or with an
// empty one for all that have none of their own. None set is no error.
func (q *Queue) ResetGroupLimits(ctx context.Context, queue, group string) error {
	if err := errors.Join(checkToken("queue", queue), checkGroup(group)); err != nil {
		return fmt.Errorf("the limits of group %q cannot be reset: %w", group, err)
	}
	m, err := q.engine.Get(ctx, engine.State, limitsSubject(queue, group))
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = q.engine.Delete(ctx, engine.State, m.Seq)
	}
	if err == nil {
		err = q.settle(ctx)
	}
	if err != nil {
		return storeError(err)
	}
	return q.limitsChanged(ctx, queue)
}

// limitsChanged lets this node and the others read the limits of a queue again.
func (q *Queue) limitsChanged(ctx context.Context, queue string) error {
	q.tellNodes("limits", queue)
	y := q.yard(queue)
	if y == nil {
		return nil
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return err
	}
	y.limit(set)
	return nil
}

// tellNodes tells other nodes something; it may be lost, then they find out by
// themselves within limitsAge.
func (q *Queue) tellNodes(what, queue string) {
	if q.engine.Shared() {
		q.engine.Send(what, []byte(queue)) //nolint:errcheck // see above
	}
}

// limitsAge is how old the limits may be that a node knows of a store that
// others change too.
const limitsAge = 5 * time.Second

// setLimits reads the limits that are set for a queue, by group.
func (q *Queue) setLimits(ctx context.Context, queue string) (map[string]GroupLimits, error) {
	set := map[string]GroupLimits{}
	for from := uint64(0); ; {
		page, err := q.engine.Scan(ctx, engine.State, "set.lim."+queue+".>", from, scanPage)
		if err != nil {
			return nil, storeError(err)
		}
		for _, m := range page {
			from = m.Seq + 1
			group, l, err := decodeLimits(m.Subject, m.Data)
			if err != nil {
				q.damaged(queue, "", err)
				continue
			}
			set[group] = l
		}
		if len(page) < scanPage {
			return set, nil
		}
	}
}
