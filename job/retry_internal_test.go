package job

import (
	"fmt"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

var usualRetry = Retry{
	Attempts: 5, Backoff: time.Second, MaxBackoff: 5 * time.Minute, Crashes: 3, Nodes: 10,
	On: []bullpen.Outcome{bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Protocol},
}

func TestDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ backoff, most time.Duration }{
		{time.Second, 5 * time.Minute}, {time.Second, time.Second}, {time.Millisecond, 7 * time.Second},
		{time.Hour, 1 << 62}, {1, 1<<63 - 1}, {time.Second, 1<<63 - 1}, {2, 3},
	} {
		r := Retry{Backoff: c.backoff, MaxBackoff: c.most}
		want := c.backoff
		for n := 1; n <= 100; n++ {
			if n > 1 {
				if want > c.most/2 {
					want = c.most
				} else {
					want *= 2
				}
			}
			for _, random := range []float64{0, 0.25, 0.5, 0.999999} {
				d := r.Delay(n, random)
				if d > want || d > c.most || d < want/2-want/1_000_000 {
					t.Fatalf("%+v after %d attempts waits %v, want %v or up to a half less", c, n, d, want)
				}
			}
			if d := r.Delay(n, 0); d != want {
				t.Fatalf("%+v after %d attempts waits %v at most, want %v", c, n, d, want)
			}
		}
	}
	if d := (Retry{Backoff: time.Second, MaxBackoff: time.Minute}).Delay(1<<40, 0); d != time.Minute {
		t.Errorf("after very many attempts it waits %v, want a minute", d)
	}
}

// TestThePolicyOfAJob lays the policy of a job over that of the queue.
func TestThePolicyOfAJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   Retry
		want Retry
	}{
		"nothing":           {Retry{}, usualRetry},
		"attempts":          {Retry{Attempts: 1}, Retry{1, time.Second, 5 * time.Minute, 3, 10, usualRetry.On}},
		"no outcome":        {Retry{On: []bullpen.Outcome{}}, Retry{5, time.Second, 5 * time.Minute, 3, 10, []bullpen.Outcome{}}},
		"all":               {Retry{2, 3, 4, 5, 6, []bullpen.Outcome{bullpen.Output}}, Retry{2, 3, 4, 5, 6, []bullpen.Outcome{bullpen.Output}}},
		"a long back-off":   {Retry{Backoff: time.Hour}, Retry{5, time.Hour, time.Hour, 3, 10, usualRetry.On}},
		"a short most only": {Retry{MaxBackoff: 100 * time.Millisecond}, Retry{5, 100 * time.Millisecond, 100 * time.Millisecond, 3, 10, usualRetry.On}},
	} {
		if got := c.of.Over(usualRetry); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
