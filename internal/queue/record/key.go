package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/job"
)

// Key is what is stored for an idempotency key.
type Key struct {
	ID string
	// Priority and At are those of the job. Every caller that puts the job puts it on the
	// same subject, where the second caller finds the first one's.
	Priority job.Priority
	At       time.Time

	State job.State // Queued until the job has ended
	Ended time.Time
}

const (
	keyID = iota + 1
	keyState
	keyEnded
	keyPriority
	keyAt
)

// KeySubject returns the subject of a key's record.
func KeySubject(queue, key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key." + queue + "." + hex.EncodeToString(sum[:16])
}

// Encode returns the record of k, which stands on subject.
func (k Key) Encode(subject string) []byte {
	w := newRecord(64)
	w.text(keyID, k.ID)
	w.number(keyState, uint64(k.State))
	w.moment(keyEnded, k.Ended)
	w.number(keyPriority, uint64(k.Priority))
	w.moment(keyAt, k.At)
	return w.seal(subject)
}

// DecodeKey reads a record that [Key.Encode] wrote.
func DecodeKey(subject string, b []byte) (Key, error) {
	var k Key
	err := readRecord(subject, b, func(f field) error {
		switch f.tag {
		case keyID:
			k.ID = string(f.v)
		case keyState:
			v, err := f.number()
			if err == nil && v > uint64(job.Canceled) {
				err = fmt.Errorf("%w: it names a state %d", job.ErrDamaged, v)
			}
			k.State = job.State(v)
			return err
		case keyEnded:
			return f.into(&k.Ended)
		case keyAt:
			return f.into(&k.At)
		case keyPriority:
			v, err := f.number()
			if err == nil && v >= job.Priorities {
				err = fmt.Errorf("%w: it names a priority %d", job.ErrDamaged, v)
			}
			k.Priority = job.Priority(v)
			return err
		}
		return nil
	})
	if err == nil && len(k.ID) != ulid.EncodedSize {
		err = fmt.Errorf("%w: its id is %q", job.ErrDamaged, k.ID)
	}
	if err != nil {
		return Key{}, fmt.Errorf("key: %w", err)
	}
	return k, nil
}
