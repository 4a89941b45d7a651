package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/bullpen-run/bullpen/job"
)

// LimitsSubject returns the subject of the limits of a group. Those of the empty group
// hold for all groups that have no limits of their own.
func LimitsSubject(queue, group string) string { return "set.lim." + queue + "." + GroupToken(group) }

// GroupToken returns the token that stands for the name of a group in subjects.
func GroupToken(group string) string {
	sum := sha256.Sum256([]byte(group))
	return hex.EncodeToString(sum[:16])
}

const (
	limitGroup = iota + 1
	limitConcurrency
	limitRate
	limitBurst
)

// EncodeLimits returns the record of the limits of a group, which stands on subject.
func EncodeLimits(subject, group string, l job.GroupLimits) []byte {
	w := newRecord(64)
	w.text(limitGroup, group)
	w.number(limitConcurrency, uint64(l.Concurrency))
	if l.Rate > 0 {
		w.number(limitRate, math.Float64bits(l.Rate))
	}
	w.number(limitBurst, uint64(l.Burst))
	return w.seal(subject)
}

// DecodeLimits reads a record that EncodeLimits wrote.
func DecodeLimits(subject string, b []byte) (group string, l job.GroupLimits, err error) {
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
			err = fmt.Errorf("%w: %w", job.ErrDamaged, fault)
		}
	}
	if err != nil {
		return "", job.GroupLimits{}, fmt.Errorf("limits of a group: %w", err)
	}
	return group, l, nil
}
