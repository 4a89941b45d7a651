package main

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"    a_test.go:9: chatter\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestRoot","Output":"=== RUN   TestRoot\n"}
{"Action":"output","Package":"m/a","Test":"TestRoot","Output":"    a_test.go:20: needs root\n"}
{"Action":"output","Package":"m/a","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestRoot"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.01s\n"}
{"Action":"pass","Package":"m/a"}
not an event
{"ImportPath":"m/c","Action":"build-output","Output":"c.go:1: broken\n"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"    b_test.go:3: got 1, want 2\n"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"m/b","Test":"TestBad"}
{"Action":"output","Package":"m/b","Test":"TestCrash","Output":"panic: lost\n"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.01s\n"}
{"Action":"fail","Package":"m/b"}
{"Action":"output","Package":"m/d","Test":"TestMute","Output":"--- SKIP: TestMute (0.00s)\n"}
{"Action":"skip","Package":"m/d","Test":"TestMute"}
`
	const want = "ok  \tm/a\t0.01s\n" +
		"not an event\n" +
		"c.go:1: broken\n" +
		"    b_test.go:3: got 1, want 2\n" +
		"--- FAIL: TestBad (0.00s)\n" +
		"FAIL\tm/b\t0.01s\n" +
		"panic: lost\n" +
		"1 test skipped: needs root (TestRoot)\n" +
		"1 test skipped: no reason given (TestMute)\n" +
		"1 passed, 2 failed, 2 skipped\n"
	var out strings.Builder
	r := newReport(&out, "")
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.close()
	if out.String() != want {
		t.Errorf("report is\n%s\nwant\n%s", out.String(), want)
	}
}

func TestManySkipsForOneReason(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out, "")
	for _, name := range strings.Fields("E D C B A") {
		r.take(event{Action: "output", Package: "p", Test: name, Output: "    x_test.go:1: no cgroups: not root\n"})
		r.take(event{Action: "skip", Package: "p", Test: name})
	}
	r.close()
	const want = "5 tests skipped: no cgroups: not root (A, B, C, D, …)\n0 passed, 0 failed, 5 skipped\n"
	if out.String() != want {
		t.Errorf("closing lines are\n%s\nwant\n%s", out.String(), want)
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	got := split([]string{"plain:", "CGO_ENABLED=0", "A_1=", "-short", "./...", "+", "race:", "-race", "-p", "3", "./a", "+", "./b"})
	twice := fmt.Sprint("-p=", 2*runtime.NumCPU())
	want := []part{
		{"plain:", []string{"CGO_ENABLED=0", "A_1="}, []string{"test", "-json", twice, "-short", "./..."}},
		{"race:", nil, []string{"test", "-json", "-race", "-p", "3", "./a"}},
		{"", nil, []string{"test", "-json", twice, "./b"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the parts are %q, want %q", got, want)
	}
}

func TestSum(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	plain, race := newReport(&out, "plain:"), newReport(&out, "race:")
	plain.take(event{Action: "pass", Package: "p", Test: "A"})
	plain.take(event{Action: "output", Package: "p", Test: "BenchmarkA", Output: "BenchmarkA\n"})
	plain.take(event{Action: "fail", Package: "p", Test: "B"})
	plain.take(event{Action: "fail", Package: "p"})
	race.take(event{Action: "pass", Package: "p", Test: "A"})
	race.take(event{Action: "output", Package: "p", Test: "C", Output: "    x_test.go:1: slow\n"})
	race.take(event{Action: "skip", Package: "p", Test: "C"})
	closeAll(&out, []*report{plain, race})
	const want = "BenchmarkA\nplain: 0 tests skipped\nplain: 1 passed, 1 failed, 0 skipped\n" +
		"race: 1 test skipped: slow (C)\nrace: 1 passed, 0 failed, 1 skipped\n" +
		"2 passed, 1 failed, 1 skipped\n"
	if out.String() != want {
		t.Errorf("closing lines are\n%s\nwant\n%s", out.String(), want)
	}
}

func TestNoSkips(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	newReport(&out, "").close()
	if want := "0 tests skipped\n0 passed, 0 failed, 0 skipped\n"; out.String() != want {
		t.Errorf("closing lines are\n%s\nwant\n%s", out.String(), want)
	}
}

// The race detector ends a package by a fault of its own: it is tested once more, and
// counted once. A second time it counts as any other crash.
func TestDetectorFault(t *testing.T) {
	t.Parallel()
	const crash = `{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestLong","Output":"    a_test.go:9: seed 7\n"}
{"Action":"output","Package":"m/a","Test":"TestLong","Output":"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346\n"}
{"Action":"fail","Package":"m/a"}
`
	p := part{"", nil, []string{"test", "-json", "-race", "./a", "./..."}}
	for again, want := range map[string]string{
		`{"Action":"pass","Package":"m/a","Test":"TestGood"}` + "\n" + `{"Action":"pass","Package":"m/a","Test":"TestLong"}` + "\n" + `{"Action":"pass","Package":"m/a"}`: "2 passed, 0 failed, 0 skipped\n",
		crash: "1 passed, 1 failed, 0 skipped\n",
	} {
		var out strings.Builder
		r := newReport(&out, "")
		if err := r.read(strings.NewReader(crash)); err != nil {
			t.Fatal(err)
		}
		if r.failing != 0 || len(r.again) != 1 {
			t.Errorf("%d packages fail, %v are tested again", r.failing, r.again)
		}
		if got, want := p.repeat(r), (&part{"", nil, []string{"test", "-json", "-race", "m/a"}}); !reflect.DeepEqual(got, want) {
			t.Errorf("the second run is %q, want %q", got, want)
		}
		if err := r.read(strings.NewReader(again)); err != nil {
			t.Fatal(err)
		}
		r.close()
		if !strings.HasSuffix(out.String(), "packages tested twice, as the race detector had failed: 1\n0 tests skipped\n"+want) {
			t.Errorf("the report is %s", out.String())
		}
	}
}

// A package that has failed by itself is not tested again.
func TestDetectorFaultAfterAFailure(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out, "")
	r.take(event{Action: "fail", Package: "p", Test: "A"})
	r.take(event{Action: "output", Package: "p", Output: detectorFault + "\n"})
	r.take(event{Action: "fail", Package: "p"})
	if len(r.again) > 0 || r.failing != 1 {
		t.Errorf("%d packages fail, %v are tested again", r.failing, r.again)
	}
}
