package confine

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStrictGroup: a child in a sandbox is in its control group, too, and the
// group can be used again after it.
func TestStrictGroup(t *testing.T) {
	needStrict(t)
	bounds := Bounds{PIDs: 3}
	groups, err := OpenGroups(bounds)
	if err != nil {
		t.Skip(err)
	}
	defer groups.Close()
	for _, guard := range []bool{true, false} {
		if !guard {
			needScopes(t)
		}
		s := strict(t, Profile{Guard: guard}, Strict{})
		for range 3 {
			g, err := groups.Get(bounds)
			if err != nil {
				t.Fatal(err)
			}
			child, host := readPipe(t)
			in, hostIn := pipe(t)
			spec := shell("echo ready; read -r line; (sleep 0 & sleep 0 & sleep 0 & wait) 2>/dev/null || echo refused", in, child)
			spec.Group = g
			c := begin(t, s, spec)
			child.Close()
			in.Close()
			readLine(t, host)
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.Pid()))
			if err != nil || !strings.Contains(string(text), "bullpen") {
				t.Errorf("in no group: %s (%v)", text, err)
			}
			hostIn.Close()
			if got := readLine(t, host); got != "refused" {
				t.Errorf("%q from a child that forks too often", got)
			}
			if _, err := c.Wait(); err != nil {
				t.Error(err)
			}
			if used, err := g.Usage(); err != nil || used.PIDsHits == 0 {
				t.Errorf("%+v, %v", used, err)
			}
			g.Put()
		}
	}
}

// pipe is one that the test writes to.
func pipe(t testing.TB) (child, host *os.File) {
	t.Helper()
	child, host, err := HostWritePipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Close(); host.Close() })
	return child, host
}
