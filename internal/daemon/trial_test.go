package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

func TestTry(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	started := filepath.Join(folder, "started")
	text := base + "pools:\n" + mine(t, "good", "workers: {min: 3}") + "  queue:\n" +
		"  once: {command: [cat], protocol: exec}\n" +
		"  bad: {command: [sh, -c, 'echo x >>" + started + "; echo no such module >&2; exit 3']}\n"
	s, err := settings.Load(settings.Source{Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	trials := Try(t.Context(), s)
	if len(trials) != 4 {
		t.Fatalf("there are %d trials: %+v", len(trials), trials)
	}
	bad, good, once, queue := trials[0], trials[1], trials[2], trials[3]
	if bad.Pool != "bad" || bad.Err == nil || !strings.Contains(bad.Err.Error(), "no such module") {
		t.Errorf("the trial of a worker that ends: %+v", bad)
	}
	// A busy machine may see the second start of the pool before it hears of the end
	// of the first.
	if starts, err := os.ReadFile(started); err != nil || len(starts) == 0 || len(starts) > len("x\nx\n") {
		t.Errorf("it was started %q times, %v; want once", starts, err)
	}
	if good.Pool != "good" || !good.Started || good.Err != nil || good.Took <= 0 {
		t.Errorf("the trial of a worker that starts: %+v", good)
	}
	if once.Pool != "once" || once.Started || once.Err != nil || queue.Pool != "queue" || queue.Started || queue.Err != nil {
		t.Errorf("trials of pools without workers: %+v, %+v", once, queue)
	}
}
