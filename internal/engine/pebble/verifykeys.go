package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// counted holds what was found in one namespace, and the counts stored for it.
type counted struct {
	found, said     totals
	numbers, stated map[numbered]int64
	last            [4]uint64 // the highest sequence numbers found
}

// keys walks all keys and compares each with the keys that belong to it. The kinds of a
// namespace come in the order of their letters: counts, index, messages, numbers, then
// the keys that refer to messages.
func (v *verifier) keys() error {
	v.names = map[space]string{}
	if err := v.each(space(0).key(0, 0), space(1).key(0, 0), v.name); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(v.names)) {
		if err := v.namespace(n); err != nil {
			return err
		}
	}
	// The remaining keys belong to no namespace.
	low := space(1).key(0, 0)
	for _, n := range slices.Sorted(maps.Keys(v.names)) {
		if err := v.each(low, n.key(0, 0), v.foreign); err != nil {
			return err
		}
		if low = n.end(); low == nil {
			return nil
		}
	}
	return v.each(low, nil, v.foreign)
}

func (v *verifier) foreign(key, _ []byte) { v.strange(key, "it belongs to no namespace") }

// end returns the first key behind a namespace, nil behind the last one.
func (n space) end() []byte { return after(n.key(0, 0)[:2]) }

// each calls visit for the keys from low up to, but not including, high. If some cannot
// be read, it continues behind them: at the next kind of key or behind the table.
func (v *verifier) each(low, high []byte, visit func(key, value []byte)) error {
	stops := v.stops()
	for at := low; ; {
		last := at
		err := recovered(func() error {
			iter, err := v.db.NewIter(&pebble.IterOptions{LowerBound: at, UpperBound: high})
			if err != nil {
				return err
			}
			for iter.First(); iter.Valid() && v.ctx.Err() == nil; iter.Next() {
				value, err := iter.ValueAndErr()
				if err != nil {
					return errors.Join(err, iter.Close())
				}
				last = bytes.Clone(iter.Key())
				v.summary.Keys++
				visit(last, value)
			}
			return iter.Close()
		})
		if v.ctx.Err() != nil {
			return fmt.Errorf("verify: %w", context.Cause(v.ctx))
		}
		if err == nil {
			return nil
		}
		v.unreadable(err)
		next := slices.IndexFunc(stops, func(stop []byte) bool { return bytes.Compare(stop, last) > 0 })
		if next < 0 || high != nil && bytes.Compare(stops[next], high) >= 0 {
			return nil
		}
		at = stops[next]
	}
}

// unreadable records that keys could not be read. It reports that once, and only if all
// tables seem intact, as damaged tables are reported anyway.
func (v *verifier) unreadable(err error) {
	if !v.broken && len(v.spans) == 0 {
		v.report(Damage{Kind: "key", Text: "keys cannot be read: " + err.Error()})
	}
	v.broken = true
}

// stops returns the keys at which reading can continue after a damage, in order.
func (v *verifier) stops() [][]byte {
	var stops [][]byte
	for n := range v.names {
		stops = append(stops, n.key(0, 0))
		for _, kind := range []byte{kindCounts, kindIndex, kindMessage, kindNumber, kindPaused, kindReady, kindTimed} {
			stops = append(stops, n.key(kind, 0))
			for s := range engine.Streams() {
				stops = append(stops, append(n.key(kind, 1), byte(s)))
			}
		}
	}
	for _, s := range v.spans {
		stops = append(stops, append(bytes.Clone(s.high), 0))
	}
	slices.SortFunc(stops, bytes.Compare)
	return stops
}

// strange reports a key that no store writes.
func (v *verifier) strange(key []byte, text string) {
	d := Damage{Kind: "key", Text: fmt.Sprintf("%q: %s", key, text)}
	if len(key) >= 3 {
		d.Namespace = v.names[space(binary.BigEndian.Uint16(key))]
	}
	v.report(d)
}

// name records the name of a namespace.
func (v *verifier) name(key, value []byte) {
	name, ok := bytes.CutPrefix(key, nameKey(""))
	switch {
	case !ok:
		v.foreign(key, value)
		return
	case len(value) != 2 || binary.BigEndian.Uint16(value) == 0:
		v.report(Damage{Kind: "name", Namespace: string(name), Text: "the number of the namespace differs from what was written"})
		return
	}
	n := space(binary.BigEndian.Uint16(value))
	if other, ok := v.names[n]; ok {
		v.report(Damage{Kind: "name", Namespace: string(name), Text: fmt.Sprintf("it has the number %d, as has %q", n, other)})
		return
	}
	v.names[n] = string(name)
}

// namespace walks the keys of one namespace.
func (v *verifier) namespace(n space) error {
	c := &counted{numbers: map[numbered]int64{}, stated: map[numbered]int64{}}
	err := v.each(n.key(0, 0), n.end(), func(key, value []byte) {
		check := map[byte]func(space, *counted, []byte, []byte) error{
			kindCounts: v.counts, kindIndex: v.index, kindMessage: v.stored, kindNumber: v.number,
			kindPaused: v.paused, kindReady: v.ready, kindTimed: v.timed,
		}[key[2]]
		if check == nil {
			v.strange(key, "unknown kind of key")
		} else if err := check(n, c, key, value); err != nil {
			v.unreadable(err)
		}
	})
	if err != nil {
		return err
	}
	for s, t := range c.found {
		*[]*int64{&v.summary.Jobs, &v.summary.Outcomes, &v.summary.State, &v.summary.Dead}[s] += t.messages
	}
	v.summary.Scheduled += c.numbers[numbered{engine.Jobs, "at"}]
	if !v.broken {
		v.compare(n, c)
	}
	return nil
}

// compare compares the stored counts with what was found.
func (v *verifier) compare(n space, c *counted) {
	for s, t := range c.found {
		stream := engine.Stream(s)
		said := c.said[s]
		if t.messages != said.messages || t.bytes != said.bytes || c.last[s] > said.last {
			v.report(Damage{Kind: "counts", Namespace: v.names[n], Stream: stream.String(), Text: fmt.Sprintf(
				"there are %d messages of %d bytes, the highest with number %d; the store counts %d of %d bytes, up to %d",
				t.messages, t.bytes, c.last[s], said.messages, said.bytes, said.last)})
		}
	}
	for _, of := range sortedNumbers(c.numbers, c.stated) {
		if c.numbers[of] != c.stated[of] {
			v.report(Damage{Kind: "number", Namespace: v.names[n], Stream: of.stream.String(), Subject: of.front + ".*",
				Text: fmt.Sprintf("there are %d messages, but the store counts %d", c.numbers[of], c.stated[of])})
		}
	}
}

// sortedNumbers returns the fronts of both maps.
func sortedNumbers(a, b map[numbered]int64) []numbered {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.SortedFunc(maps.Keys(all), func(a, b numbered) int {
		if a.stream != b.stream {
			return int(a.stream) - int(b.stream)
		}
		return strings.Compare(a.front, b.front)
	})
}
