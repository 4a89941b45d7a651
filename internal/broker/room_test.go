package broker

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, c := range []struct {
		name    string
		reserve int64
		space   space
		err     error
		want    string // empty when there is room
	}{
		{"plenty", 0, space{free: gib, total: 100 * gib}, nil, ""},
		{"default", 0, space{free: 127 << 20, total: 100 * gib}, nil, "133169152 bytes free, and 134217728 are kept"},
		{"small disk", 0, space{free: 20 << 20, total: gib}, nil, "free some space"},
		{"small disk with room", 0, space{free: 22 << 20, total: gib}, nil, ""},
		{"own reserve", 2 * gib, space{free: gib, total: 100 * gib}, nil, "lower the reserve"},
		{"files", 0, space{free: gib, total: gib, inodes: 999, allInodes: 1 << 20}, nil, "999 more files"},
		{"few files in all", 0, space{free: gib, total: gib, inodes: 20, allInodes: 1000}, nil, ""},
		{"no limit of files", 0, space{free: gib, total: gib}, nil, ""},
		{"not known", 0, space{}, errors.New("no answer"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := room{dir: "/store", reserve: c.reserve, log: slog.New(slog.DiscardHandler),
				space: func(string) (space, bool, error) { return c.space, true, c.err }}
			err := r.ask(100)
			if c.want == "" {
				if err != nil {
					t.Errorf("ask() = %v", err)
				}
				return
			}
			if !errors.Is(err, engine.ErrFull) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/store") {
				t.Errorf("ask() = %v, want %q", err, c.want)
			}
		})
	}
}

func TestRoomAsksOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		free := int64(0)
		r := room{log: slog.New(slog.DiscardHandler), space: func(string) (space, bool, error) {
			asked++
			return space{free: free, total: 1 << 40}, true, nil
		}}
		for range 100 {
			if err := r.ask(100); err == nil {
				t.Fatal("there is room")
			}
		}
		free = 1 << 30
		<-time.After(spaceAge)
		if err := r.ask(100); err != nil || asked != 2 {
			t.Errorf("ask() = %v, asked %d times", err, asked)
		}
	})
}

func TestClamp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, size, want int64 }{{0, 4096, 0}, {-1, 4096, 0}, {3, 4096, 12288}, {math.MaxInt64, 4096, math.MaxInt64}} {
		if got := clamp(c.n, c.size); got != c.want {
			t.Errorf("clamp(%d, %d) = %d", c.n, c.size, got)
		}
	}
}
