package access

import (
	"net/netip"
	"sync"
	"time"
)

// client identifies the owner of a bucket: the name of a token, or an address.
type client struct {
	name string
	addr netip.Addr
}

// bucket is the token bucket of a client.
type bucket struct {
	left float64
	at   time.Time // when left was current
}

// buckets limits the rate of each client. When the table is full it drops an entry,
// so that it stays bounded.
type buckets struct {
	rate, burst float64
	most        int

	mu    sync.Mutex
	table map[client]bucket // guarded by mu
}

func newBuckets(rate, burst float64, most int) *buckets {
	return &buckets{rate: rate, burst: burst, most: most, table: map[client]bucket{}}
}

// take takes one token; if none is left it returns how long until there is one.
func (b *buckets) take(c client, now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, known := b.table[c]
	if known {
		k = b.refilled(k, now)
	} else {
		if len(b.table) >= b.most {
			b.forget(now)
		}
		k = bucket{b.burst, now}
	}
	if k.left < 1 {
		b.table[c] = k
		return b.until(k), false
	}
	k.left--
	b.table[c] = k
	return 0, true
}

// spent reports whether no token is left, and for how long.
func (b *buckets) spent(c client, now time.Time) (wait time.Duration, yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, known := b.table[c]
	if !known {
		return 0, false
	}
	if k = b.refilled(k, now); k.left >= 1 {
		return 0, false
	}
	return b.until(k), true
}

func (b *buckets) refilled(k bucket, now time.Time) bucket {
	if d := now.Sub(k.at); d > 0 {
		k.left = min(b.burst, k.left+d.Seconds()*b.rate)
		k.at = now
	}
	return k
}

func (b *buckets) until(k bucket) time.Duration {
	seconds := min((1-k.left)/b.rate, 3600)
	return time.Duration(seconds * float64(time.Second))
}

// forget makes room in the table. Among some entries, in random order, it drops those
// that are full again, or else the one with most tokens left. mu is held.
func (b *buckets) forget(now time.Time) {
	const looks = 16
	var most client
	left, n := -1.0, 0
	for c, k := range b.table {
		if n++; n > looks {
			break
		}
		k = b.refilled(k, now)
		if k.left > left {
			most, left = c, k.left
		}
		if k.left >= b.burst {
			delete(b.table, c)
		}
	}
	delete(b.table, most)
}
