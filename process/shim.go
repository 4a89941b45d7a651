package process

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/confine"
)

// Version managers put a shell script in front of an interpreter, which looks up the
// right one at every start. That takes 50 to 150 ms, many times the start itself. The
// pool runs such a script once to find the interpreter.

// shimTime is the timeout of that run.
const shimTime = 10 * time.Second

// questions holds the arguments that make an interpreter print the path of its
// executable.
var questions = []struct {
	name string // of the interpreter, without its version
	args []string
}{
	{"python", []string{"-c", "import sys; print(sys.executable)"}},
	{"pypy", []string{"-c", "import sys; print(sys.executable)"}},
	{"node", []string{"-p", "process.execPath"}},
	{"ruby", []string{"-e", "puts RbConfig.ruby"}},
	{"perl", []string{"-e", "print $^X"}},
	{"php", []string{"-r", "echo PHP_BINARY;"}},
}

// shims caches the answers, by everything that they depend on.
var shims sync.Map

// behindShim returns the interpreter that the script at path starts, or path itself if
// it is no such script or the interpreter cannot be found. env and dir are those of the
// workers: version managers read them to find the version to use.
func behindShim(path string, env []string, dir string) string {
	// Run only scripts that are named like an interpreter: any other would do its work.
	name := strings.TrimRight(filepath.Base(path), "0123456789.")
	for _, q := range questions {
		if name != q.name || !isScript(path) {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return path
		}
		key := strings.Join(append([]string{path, info.ModTime().String(), dir}, env...), "\x00")
		once, _ := shims.LoadOrStore(key, sync.OnceValue(func() string { return ask(path, q.args, env, dir) }))
		return once.(func() string)()
	}
	return path
}

// ask runs the script once. On any error it returns path: the script will report its
// error itself.
func ask(path string, args, env []string, dir string) string {
	ctx, cancel := context.WithTimeout(context.Background(), shimTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = env, dir, time.Second
	var out []byte
	err := confine.CloseOnExec()
	if err == nil {
		out, err = cmd.Output()
	}
	found := string(bytes.TrimSpace(out))
	if err != nil || !filepath.IsAbs(found) || isScript(found) {
		return path
	}
	if info, err := os.Stat(found); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return path
	}
	return found
}

// isScript reports whether the file begins with "#!".
func isScript(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // nothing was written
	var head [2]byte
	_, err = file.Read(head[:])
	return err == nil && head == [2]byte{'#', '!'}
}
