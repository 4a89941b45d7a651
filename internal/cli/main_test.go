//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/process"
)

// leakless runs the tests and fails when they leave something behind.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	before := leak.Snapshot()
	code := l.m.Run()
	if built.folder != "" {
		_ = os.RemoveAll(built.folder)
	}
	if code == 0 {
		if err := before.Compare(); err != nil {
			fmt.Fprintf(os.Stderr, "The tests passed and left this behind:\n%v\n", err)
			code = 1
		}
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){
		"bullpen":    func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"filter":     filter,
		"onterminal": onTerminal,
		"status":     tellStatus,
	})
}

// built is the Go worker of the examples, built when the first script starts.
var built struct {
	once   sync.Once
	folder string
	err    error
}

// able reports whether this machine can keep bounds, or the strict sandbox.
func able(what string) (bool, error) {
	c := process.Config{Command: []string{"sh"}}
	switch what {
	case "groups":
		c.Limits, c.PIDs = bullpen.Limits{Memory: 1 << 30, CPU: 1}, 100
	case "strict":
		c.Sandbox.Profile = process.ProfileStrict
	default:
		return false, fmt.Errorf("unknown condition %q", what)
	}
	p, err := process.New(c)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return p.Guarantees().MemoryBound || what == "strict", p.Close()
}

func goworker() (folder string, err error) {
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "bullpen-cli"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", built.folder, "../../examples/goworker")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	return built.folder, built.err
}

func TestScripts(t *testing.T) {
	t.Parallel()
	folder, err := goworker()
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs("../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", folder+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("PYTHONPATH", sdk)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Setenv("PYTHONDONTWRITEBYTECODE", "1")
			return nil
		},
		Condition: able,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitlines": waitLines, "waitgrep": waitGrep, "sequence": sequence, "sorted": sorted, "append": appendTo,
		},
	})
}

// waitLines waits until a file has so many lines.
func waitLines(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	awaitFile(ts, args[0], args[1]+" lines", func(content []byte) bool { return bytes.Count(content, []byte("\n")) >= want })
}

// waitGrep waits until a file has a line that matches.
func waitGrep(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	awaitFile(ts, args[0], "a line that matches "+args[1], pattern.Match)
}

// awaitFile waits until a file, which may not be there yet, has what is wanted.
func awaitFile(ts *testscript.TestScript, name, wanted string, has func(content []byte) bool) {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		content, _ := os.ReadFile(ts.MkAbs(name))
		if has(content) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("after a minute %s has not %s: %q", name, wanted, content)
		}
	}
}

// sequence writes the numbers from 1 to N to a file, one a line.
func sequence(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b []byte
	for i := range n {
		b = append(strconv.AppendInt(b, int64(i+1), 10), '\n')
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
}

// sorted writes the lines of a file (or stdout) to another, in order of their
// numbers.
func sorted(ts *testscript.TestScript, _ bool, args []string) {
	lines := strings.SplitAfter(ts.ReadFile(args[0]), "\n")
	byNumber := make([]string, len(lines))
	for _, line := range lines {
		if line == "" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		ts.Check(err)
		if n < 1 || n >= len(lines) || byNumber[n] != "" {
			ts.Fatalf("%s: line %d is there twice or not part of a sequence", args[0], n)
		}
		byNumber[n] = line
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(byNumber, "")), 0o600))
}

// appendTo appends a text without a line feed to a file.
func appendTo(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = file.WriteString(args[1])
	ts.Check(errors.Join(err, file.Close()))
}

// tellStatus is a command that runs another, hands signals on to it, and says on
// standard error how it ended.
func tellStatus() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { // ends with the process
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	_ = cmd.Wait()
	fmt.Fprintf(os.Stderr, "status %d\n", cmd.ProcessState.ExitCode())
}

// filter is a worker that answers each line with itself, unless the line says
// otherwise.
func filter() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		line := in.Text()
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "exit":
			fmt.Fprintln(os.Stderr, "about to exit:", rest)
			syscall.Exit(3)
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "say":
			fmt.Fprintln(os.Stderr, rest)
		case "twice":
			fmt.Println(line)
		case "env":
			line = rest + "=" + os.Getenv(rest)
		case "dir":
			line, _ = os.Getwd()
		case "pid":
			line = strconv.Itoa(os.Getpid())
		case "as":
			line = rest
		case "once":
			onceThen(rest)
		case "wait":
			await(rest)
		}
		fmt.Println(line)
	}
	syscall.Exit(0) // the race detector holds os.Exit up for a second
}

// onceThen makes the file name, and dies; where it is there already, it returns.
func onceThen(name string) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		file.Close()
		syscall.Exit(1)
	}
}

// await appends a line to the file NAME.begun, then waits until NAME is there.
func await(name string) {
	file, err := os.OpenFile(name+".begun", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(file, "begun")
		file.Close()
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		<-tick.C
	}
}
