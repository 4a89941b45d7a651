//go:build linux

package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// analyze runs systemd-analyze on a copy of the unit whose programs are there.
func analyze(t *testing.T, with string, arguments ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze: ", err)
	}
	folder := t.TempDir()
	unit := filepath.Join(folder, "bullpen.service")
	text := strings.ReplaceAll(read(t, "deploy/systemd/bullpen.service"), "/usr/bin/bullpen", "/bin/true")
	if with != "" {
		text += "\n" + read(t, with)
	}
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", append(arguments, unit)...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze %v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

func TestTheUnitIsRight(t *testing.T) {
	t.Parallel()
	for _, with := range []string{"", "deploy/systemd/strict.conf"} {
		for line := range strings.Lines(analyze(t, with, "verify")) {
			if strings.Contains(line, "bullpen.service") {
				t.Errorf("with %q: %s", with, line)
			}
		}
	}
}

// TestTheUnitIsShutIn bounds what systemd thinks of its exposure, from 0 (none) to 10.
func TestTheUnitIsShutIn(t *testing.T) {
	t.Parallel()
	level := regexp.MustCompile(`exposure level for bullpen.service: ([0-9.]+)`)
	for with, most := range map[string]float64{"": 2.0, "deploy/systemd/strict.conf": 4.0} {
		out := analyze(t, with, "security", "--offline=true", "--no-pager")
		m := level.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no exposure level in\n%s", out)
		}
		if got, err := strconv.ParseFloat(m[1], 64); err != nil || got > most {
			t.Errorf("with %q: the exposure is %s, want at most %v", with, m[1], most)
		}
	}
}
