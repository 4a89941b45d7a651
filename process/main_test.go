//go:build unix

package process

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/bullpen-run/bullpen/executortest"
	"github.com/bullpen-run/bullpen/internal/leak"
	sdk "github.com/bullpen-run/bullpen/worker"
)

// TestMain makes the test binary its own worker: with a channel in its
// environment it serves the handlers of the contract's suite and of these
// tests, as it does as a function of Lambda or a web server; with a role as its second argument it misbehaves in that way, or is a
// host that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "zoo" {
		zoo(os.Args[2], os.Args[3:])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "host" {
		host(os.Args[2])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "ordinary-host" {
		ordinaryHost(os.Args[2])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "busy-host" {
		python := append(os.Args[3:], "", "")
		busyHost(os.Args[2], python[0], python[1])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "function" {
		serveFunction(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "web" {
		serveWeb(os.Args[2:])
		return
	}
	if sdk.Serving() {
		serve()
		return
	}
	leak.Main(m)
}

// self is the test binary.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

func serve() {
	handlers := executortest.Handlers()
	maps.Copy(handlers, moreHandlers())
	maps.Copy(handlers, hogs())
	maps.Copy(handlers, streamHandlers())
	concurrency := 1
	if filepath.Base(os.Args[len(os.Args)-1]) == "concurrent" {
		concurrency = 8
	}
	sdk.Main(sdk.Config{Handlers: handlers, Concurrency: concurrency})
}
