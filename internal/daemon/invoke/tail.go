package invoke

import (
	"encoding/base64"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
)

// tailBytes is how much of the log a caller gets.
const tailBytes = 4 << 10

// tail keeps the last lines that a function has logged. It is a [bullpen.Observer].
type tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// Progress does nothing.
func (t *tail) Progress(float64, string) {}

// Log keeps a line.
func (t *tail) Log(line bullpen.LogLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(append(t.text, line.Text...), '\n')
	if len(t.text) > 4*tailBytes {
		t.text = append(t.text[:0], t.text[len(t.text)-tailBytes:]...)
	}
}

// result returns the last tailBytes of the log in base64, with the lines around it that
// AWS writes, which programs read durations from.
func (t *tail) result(v *invocation, s *bullpen.Stats) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Appendf(nil, "START RequestId: %s Version: %s\n", v.id, latest)
	text = append(text, t.text...)
	ms := float64(s.Ran) / float64(time.Millisecond)
	text = fmt.Appendf(text, "END RequestId: %s\nREPORT RequestId: %s\tDuration: %.2f ms\tBilled Duration: %.0f ms", v.id, v.id, ms, math.Ceil(ms))
	if v.function.Memory > 0 {
		text = fmt.Appendf(text, "\tMemory Size: %d MB", v.function.Memory>>20)
	}
	if s.PeakMemory > 0 {
		text = fmt.Appendf(text, "\tMax Memory Used: %d MB", (s.PeakMemory+1<<20-1)>>20)
	}
	text = append(text, "\t\n"...)
	return base64.StdEncoding.EncodeToString(text[max(len(text)-tailBytes, 0):])
}
