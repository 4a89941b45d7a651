package natstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// moduleFolder has the module that pins the server.
var moduleFolder = filepath.Join("tools", "nats")

// binary is the path of the server. It is built once by a test binary, without the
// race detector and without C, whatever the tests are built with.
var binary = sync.OnceValues(func() (string, error) {
	module, err := module()
	if err != nil {
		return "", err
	}
	// With -n the go command builds a tool into its cache and says where it is.
	cmd := exec.Command("go", "tool", "-n", "nats-server")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOWORK=off")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building nats-server in %s: %w\n%s", module, err, complaints.String())
	}
	return strings.TrimSpace(string(out)), nil
})

// Program returns the path of the server, for tests of what it is to read.
func Program(tb testing.TB) string {
	tb.Helper()
	path, err := binary()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// module looks for moduleFolder in the folder of the test and those above it.
func module() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		m := filepath.Join(dir, moduleFolder)
		if _, err := os.Stat(filepath.Join(m, "go.mod")); err == nil {
			return m, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no folder above the test has " + moduleFolder + ": run the tests in a checkout")
		}
		dir = filepath.Dir(dir)
	}
}
