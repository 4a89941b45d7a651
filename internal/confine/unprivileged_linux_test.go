package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ordinaryUser is nobody.
const ordinaryUser = 65534

// ordinary is what helperOrdinary says.
type ordinary struct {
	Refused             string // without best effort
	Missing             []string
	NoFiles, NoNetwork  bool
	OrphanProof         bool
	Answers             []string
	Exits               []string
	Failed              string
	Environment, Folder string
}

// helperOrdinary is a host that is an ordinary user. It tries what is in TRY.
func helperOrdinary() error {
	dir := os.Getenv("TRY_DIR")
	profile := Profile{Guard: true, GuardAlone: true, NoCore: true, Nice: 3, NiceSet: true, Strict: &Strict{Read: []string{dir + "/exe"}, Write: []string{dir + "/write"}}}
	var found ordinary
	s, err := NewSpawner(profile)
	if err != nil {
		found.Refused = err.Error()
		profile.Strict.BestEffort = true
		if s, err = NewSpawner(profile); err != nil {
			return err
		}
	}
	found.Missing = s.Missing()
	found.NoFiles, found.NoNetwork = s.Confined()
	found.OrphanProof, _ = s.OrphanProof()
	var asked []string
	if err := json.Unmarshal([]byte(os.Getenv("TRY")), &asked); err != nil {
		return err
	}
	text, exit, err := ordinaryOutput(s, Spec{
		Path: dir + "/exe", Args: append([]string{"try"}, asked...), Temp: dir + "/temp", Env: []string{helperEnv + "=try", "GORACE=atexit_sleep_ms=0"},
	})
	if err != nil {
		return err
	}
	found.Exits = append(found.Exits, exit.String())
	if err := json.Unmarshal([]byte(text), &found.Answers); err != nil {
		return fmt.Errorf("%w: %q", err, text)
	}
	for _, script := range []string{"exit 3", "kill -KILL $$", "kill -SEGV $$"} {
		_, exit, err := ordinaryOutput(s, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}})
		if err != nil {
			return err
		}
		found.Exits = append(found.Exits, exit.String())
	}
	if _, err := s.Start(Spec{Path: dir + "/missing"}); err != nil {
		found.Failed = err.Error()
	}
	text, _, err = ordinaryOutput(s, Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", `echo "$A $(nice) $(cd /proc/self/fd; echo *)"; pwd; echo $(setsid sh -c 'sleep "$MARK" >/dev/null 2>&1 & echo detached')`},
		Env: []string{"A=given", "PATH=/usr/bin:/bin", "MARK=" + os.Getenv("MARK")}, Dir: "/usr",
	})
	if err != nil {
		return err
	}
	text, detached := strings.CutSuffix(text, "\ndetached\n")
	if !detached {
		return fmt.Errorf("nothing was detached: %q", text)
	}
	if os.Getenv("TRY_DIE") != "" {
		return unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	found.Environment, found.Folder, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return errors.Join(s.Close(), json.NewEncoder(os.Stdout).Encode(found))
}

// ordinaryOutput runs spec and gives what it has printed.
func ordinaryOutput(s *Spawner, spec Spec) (string, Exit, error) {
	child, host, err := HostReadPipe()
	if err != nil {
		return "", Exit{}, err
	}
	defer host.Close()
	spec.Files = []*os.File{nil, child, os.Stderr}
	c, err := s.Start(spec)
	child.Close()
	if err != nil {
		return "", Exit{}, err
	}
	exit, err := c.Wait()
	if err != nil {
		return "", exit, err
	}
	text, err := io.ReadAll(host)
	return string(text), exit, err
}

// asOrdinary runs helperOrdinary as nobody, by under, unless it is nil.
func asOrdinary(t *testing.T, under func(run func() ([]byte, error)) ([]byte, error), asked ...want) ordinary {
	t.Helper()
	texts := make([]string, len(asked))
	for i, w := range asked {
		texts[i] = w.ask
	}
	cmd := ordinaryCommand(t, texts)
	run := cmd.Output
	if under != nil {
		run = func() ([]byte, error) { return under(cmd.Output) }
	}
	out, err := run()
	if err != nil {
		t.Fatal(err)
	}
	var found ordinary
	if err := json.Unmarshal(out, &found); err != nil || len(found.Answers) != len(asked) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, got := range found.Answers {
		if w := asked[i]; got != w.says && (w.says == "" || !strings.Contains(got, w.says)) {
			t.Errorf("%s: %q, want %q", w.ask, got, w.says)
		}
	}
	return found
}

// ordinaryCommand is helperOrdinary as nobody, who has the folders that "DIR" in
// asked stands for.
func ordinaryCommand(t *testing.T, asked []string, env ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir := temporary(t)
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(selfExe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/exe", program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"temp", "write", "secret"} {
		if err := errors.Join(os.Mkdir(dir+"/"+name, 0o700), os.Chown(dir+"/"+name, ordinaryUser, ordinaryUser)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir+"/secret/file")
	if err := os.Chown(dir+"/secret/file", ordinaryUser, ordinaryUser); err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(asked))
	for i, ask := range asked {
		texts[i] = strings.ReplaceAll(ask, "DIR", dir)
	}
	try, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := helperCommand(t, "ordinary", append(env, "TRY_DIR="+dir, "TRY="+string(try))...)
	cmd.Path, cmd.Args = dir+"/exe", []string{dir + "/exe"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	return cmd
}

// TestStrictOfAnOrdinaryUser: where user namespaces may be made, such a user has
// the whole of it.
func TestStrictOfAnOrdinaryUser(t *testing.T) {
	needStrict(t)
	needScopes(t)
	found := asOrdinary(t, nil,
		want{"read DIR/secret/file", "no such file"}, want{"stat DIR/secret", "no such file"}, want{"chmod DIR/write", ""},
		want{"write DIR/write/new", ""}, want{"write DIR/temp/new", ""}, want{"mkdir /dev/shm/x", ""}, want{"fill DIR/temp/big", "no space"},
		want{"write DIR/exe", "read-only"}, want{"read /etc/passwd", ""}, want{"write /etc/new", "read-only"}, want{"chmod /etc/passwd", "read-only"},
		want{"read /etc/shadow", "denied"}, want{"list /root", "no such file"}, want{"stat /var", "no such file"}, want{"stat /run", "no such file"},
		want{"write /dev/null", ""}, want{"read /proc/self/status", ""}, want{"processes", "1 of "}, want{"list /usr/bin", "sh"},
		want{"dial tcp 127.0.0.1:1", "dial tcp"}, want{"dial unix /run/socket", "no such file"}, want{"socket 1", ""}, want{"socket 2", ""},
		want{"unshare", "not permitted"}, want{"mount /dev/shm", "not permitted"}, want{"fsopen", "not permitted"}, want{"chroot /usr", "not permitted"},
		want{"kill 1", "not permitted"}, want{"prlimit 1", "not permitted"}, want{"nice 0 1", "not permitted"}, want{"prlimit 0", ""},
		want{"shm 4711", ""}, want{"openat2 /etc/passwd", "not implemented"}, want{"clone3", "not implemented"},
		want{"status Seccomp NoNewPrivs CapInh CapPrm CapEff CapBnd CapAmb Uid", "Uid=65534\t65534\t65534\t65534 CapInh=0000000000000000 CapPrm=0000000000000000 " +
			"CapEff=0000000000000000 CapBnd=0000000000000000 CapAmb=0000000000000000 NoNewPrivs=1 Seccomp=2"},
	)
	if found.Refused != "" || len(found.Missing) > 0 || !found.NoFiles || !found.NoNetwork || !found.OrphanProof {
		t.Errorf("it is not the whole sandbox: %+v", found)
	}
	if got := strings.Join(found.Exits, "; "); got != "exit code 0; exit code 3; killed (signal 9); segmentation fault (signal 11)" {
		t.Errorf("children ended with %s", got)
	}
	if !strings.Contains(found.Failed, "missing: no such file") {
		t.Errorf("the start of nothing: %q", found.Failed)
	}
	if found.Environment != "given 3 0 1 2 3" || found.Folder != "/usr" {
		t.Errorf("environment %q, folder %q", found.Environment, found.Folder)
	}
}

// TestNothingOutlivesAnOrdinaryUser: what a child has detached ends with the
// host, also when that is killed.
func TestNothingOutlivesAnOrdinaryUser(t *testing.T) {
	needStrict(t)
	for i, env := range [][]string{nil, {"TRY_DIE=yes"}} {
		mark := fmt.Sprintf("%d000%d", os.Getpid(), i) // seconds
		err := ordinaryCommand(t, nil, append(env, "MARK="+mark)...).Run()
		if died := err != nil; died != (env != nil) {
			t.Errorf("%q: %v", env, err)
		}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(20 * time.Second); commandWith(t, mark); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("%q: what a child has detached lives on", env)
			}
		}
	}
}

// commandWith reports whether a process has argument among its arguments.
func commandWith(t *testing.T, argument string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && slices.Contains(strings.Split(string(text), "\x00"), argument) // else it has ended
	})
}
