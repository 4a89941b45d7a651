package natstest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// dyingVar makes the test binary start a server, say its process and wait to be killed.
const dyingVar = "BULLPEN_TEST_DYING"

// TestEndsWithTheTests kills a test binary: its server does not live on.
func TestEndsWithTheTests(t *testing.T) {
	if os.Getenv(dyingVar) != "" {
		k := Start(t, Config{})
		k.Pause(0) // a stopped process ends too
		fmt.Printf("server %d\n", k.all[0].cmd.Process.Pid)
		<-t.Context().Done()
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestEndsWithTheTests$")
	cmd.Env = append(os.Environ(), dyingVar+"=1", "TMPDIR="+t.TempDir()) // what it leaves goes with ours
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "server %d", &pid) // other lines are of the tests
	}
	if err := cmd.Process.Kill(); err != nil || pid == 0 {
		t.Fatalf("the server is process %d, %v", pid, err)
	}
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(20 * time.Second); alive(pid); <-time.After(poll) {
		if time.Now().After(end) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// alive reports whether a process runs. One that has ended may wait for its parent.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
