//go:build unix

package process

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLogRate wants the output of one worker in the log to be bounded, with a word
// about the rest, and that of a quiet one to be there.
func TestLogRate(t *testing.T) {
	t.Parallel()
	const rate, lines = 1 << 10, 20_000
	j := newJournal()
	p := execPool(t, func(c *Config) { c.Logger, c.LogRate = j.logger(), rate }, "sh", "-c", "seq -f 'line %.0f of a flood' "+strconv.Itoa(lines)+" >&2")
	began := time.Now()
	do(t, p, "", "")
	var left, logged, bytes int
	poll(t, "all lines are logged or counted", func() bool {
		left, logged, bytes = 0, 0, 0
		for _, e := range j.all() {
			switch {
			case strings.HasPrefix(e.message, "output was dropped"):
				n, err := strconv.Atoi(e.attrs["lines"])
				if err != nil || e.attrs["worker"] == "" || e.attrs["rate"] != strconv.Itoa(rate) {
					t.Fatalf("the word about what was left out is %+v", e)
				}
				left += n
			case e.message == "output":
				logged++
				bytes += len(e.attrs["text"]) + 1
			}
		}
		return left+logged+int(p.Stats().LostLogLines) >= lines
	})
	if most := rate * (4 + int(time.Since(began).Seconds()) + 1); bytes > most {
		t.Errorf("%d bytes were logged, want %d at most", bytes, most)
	}
	if n := p.Stats().LimitedLogLines; int(n) != left || left == 0 {
		t.Errorf("LimitedLogLines is %d, and the log says %d", n, left)
	}
}
