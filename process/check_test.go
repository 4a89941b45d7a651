package process

import (
	"testing"

	"github.com/bullpen-run/bullpen"
)

// Check says what New says.
func TestCheckIsThatOfNew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"nothing":        {},
		"no program":     {Command: []string{"no-such-program-anywhere"}},
		"no folder":      {Command: []string{"go"}, Dir: "no-such-folder"},
		"sizes":          {Command: []string{"go"}, Min: -1, Max: -1, Spare: -1, Queue: -1, Overflow: 9, Window: -1, Need: -1},
		"times":          {Command: []string{"go"}, Grace: -1, CloseGrace: -1, StartTimeout: -1, Recycle: Recycle{Age: -1}},
		"rest":           {Command: []string{"go"}, Nice: 99, CPUs: []int{-1}, Env: []string{""}, NUL: true, Recycle: Recycle{Jitter: 2}},
		"bounds":         {Command: []string{"go"}, Limits: bullpen.Limits{Memory: 1, CPU: 1e-9}, PIDs: -1, Weight: -1, IO: 9, OOMScore: 2000},
		"sandbox":        {Command: []string{"go"}, Sandbox: Sandbox{Network: true, Temp: -1}},
		"what is usable": {Command: []string{"go"}, Sandbox: Sandbox{Profile: ProfileStrict, Allow: []string{"no-such-file"}}},
		"preload":        {Command: []string{"go"}, Preload: []string{"json"}},
	} {
		pool, err := New(c)
		if err == nil {
			t.Errorf("%s: New has no fault to tell", name)
			_ = pool.Close()
			continue
		}
		if got := c.Check(); got == nil || got.Error() != err.Error() {
			t.Errorf("%s: Check says\n%v\nNew says\n%v", name, got, err)
		}
	}
	if err := (Config{Command: []string{"go"}}).Check(); err != nil {
		t.Error(err)
	}
}
