package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tally is what came of many invocations of a function on one runtime client, through the
// Lambda front.
type tally struct {
	Client  string  `json:"client"`
	Count   int     `json:"invocations"`
	Errors  int     `json:"errors"`
	Rate    float64 `json:"per_s"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	Skipped string  `json:"skipped,omitempty"`
}

// clientCallers is how many invoke at the same time.
const clientCallers = 64

// functionsOf returns the functions of process/testdata/clients by runtime client, as
// tools/clients.sh all has installed these in a folder, and why others are missing.
func functionsOf(folder, sources, dir, exe string) (map[string]function, map[string]string) {
	all, missing := map[string]function{"Go": {[]string{exe, "function"}, dir}}, map[string]string{}
	add := func(name, needs string, command ...string) {
		if _, err := os.Stat(filepath.Join(folder, needs)); err != nil {
			missing[name] = "not installed"
			return
		}
		for i, arg := range command {
			command[i] = strings.ReplaceAll(arg, "CLIENTS", folder)
		}
		all[name] = function{command, sources}
	}
	add("Python", "python", "CLIENTS/python/bin/python", "-m", "awslambdaric", "function.handler")
	add("Node.js, client 3", "ric3", "node", "CLIENTS/ric3/node_modules/aws-lambda-ric/bin/index.mjs", "function.handler")
	add("Node.js, client 4", "ric4", "node", "CLIENTS/ric4/node_modules/aws-lambda-ric/index.mjs", "function.handler")
	add("Rust", "rust/target/release/function", "CLIENTS/rust/target/release/function")
	add("Java", "java/libs", "java", "-XX:+UseSerialGC", "-cp", dir+":CLIENTS/java/libs/*", "com.amazonaws.services.lambda.runtime.api.client.AWSLambda", "Function::handle")
	if _, ok := all["Java"]; ok {
		compile := exec.Command("javac", "-cp", filepath.Join(folder, "java", "libs")+"/*", "-d", dir, filepath.Join(sources, "Function.java"))
		if out, err := compile.CombinedOutput(); err != nil {
			delete(all, "Java")
			missing["Java"] = fmt.Sprintf("%v: %s", err, out)
		}
	}
	return all, missing
}

// tallyAll invokes the function of each runtime client that often.
func tallyAll(daemon, folder, dir, exe string, count int) (all []tally, err error) {
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	sources, err := filepath.Abs(filepath.Join(folder, "..", "..", "process", "testdata", "clients"))
	if err != nil {
		return nil, err
	}
	functions, missing := functionsOf(folder, sources, dir, exe)
	for name, f := range functions {
		one, err := tallyOne(daemon, name, f, count)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(os.Stderr, "%-20s %6d invocations  %d errors  %8.0f/s  p50 %7.1f us  p99 %7.1f us\n", name, one.Count, one.Errors, one.Rate, one.P50, one.P99)
		all = append(all, one)
	}
	for name, why := range missing {
		all = append(all, tally{Client: name, Skipped: why})
	}
	slices.SortFunc(all, func(a, b tally) int { return strings.Compare(a.Client, b.Client) })
	return all, nil
}

func tallyOne(daemon, name string, f function, count int) (one tally, err error) {
	t, err := front(daemon, f)(clientCallers)
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	var next, bad atomic.Int64
	var callers sync.WaitGroup
	times := make([]time.Duration, count)
	began := time.Now()
	for range clientCallers {
		callers.Go(func() { // ends with the last invocation
			for n := int(next.Add(1)) - 1; n < count; n = int(next.Add(1)) - 1 {
				at := time.Now()
				got, err := t.call(fmt.Sprintf(`{"Do":"ok","Arg":"number %d"}`, n))
				times[n] = time.Since(at)
				if err != nil || !strings.Contains(got, fmt.Sprintf(`"number %d"`, n)) {
					if bad.Add(1) == 1 {
						fmt.Fprintf(os.Stderr, "%s, number %d: %q, %v\n", name, n, got, err)
					}
				}
			}
		})
	}
	callers.Wait()
	took := time.Since(began)
	slices.Sort(times)
	at := func(q float64) float64 { return float64(times[int(q*float64(count-1))].Nanoseconds()) / 1e3 }
	return tally{Client: name, Count: count, Errors: int(bad.Load()), Rate: float64(count) / took.Seconds(), P50: at(.5), P99: at(.99)}, nil
}

// clientsText is the table of the tallies.
func clientsText(all []tally) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Runtime clients behind the Lambda front, %d callers\n\n", clientCallers)
	b.WriteString("Each result is compared. Two workers, also for Go and Rust.\n\n| client | invocations | errors | per s | p50 | p99 |\n|---|---|---|---|---|---|\n")
	for _, t := range all {
		if t.Skipped != "" {
			fmt.Fprintf(&b, "| %s | %s | | | | |\n", t.Client, t.Skipped)
			continue
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.0f | %.0f µs | %.0f µs |\n", t.Client, t.Count, t.Errors, t.Rate, t.P50, t.P99)
	}
	b.WriteString("\nAsked: no errors in 20 000 invocations of each client.\n")
	return b.String()
}
