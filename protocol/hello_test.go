package protocol_test

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/protocol"
)

func TestHelloRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []protocol.HostHello{
		{MaxFrame: protocol.DefaultFrame},
		{Worker: "w1", PID: 4711, MaxFrame: 1 << 20, Output: 99,
			Request: protocol.Part{Offset: 4096, Length: 1 << 20}, Reply: protocol.Part{Offset: 1052672, Length: 1 << 20}, Chunks: true},
	} {
		h, body, _, _, err := protocol.Split(want.Append(nil), protocol.DefaultFrame)
		if err != nil {
			t.Fatal(err)
		}
		have, err := protocol.ParseHostHello(h, body)
		if err != nil || have != want {
			t.Errorf("read %+v (%v), want %+v", have, err, want)
		}
	}
	for _, want := range []protocol.WorkerHello{
		{Tasks: []string{"echo"}, Concurrency: 1, MaxFrame: protocol.DefaultFrame},
		{SDK: "go/0.1", Tasks: []string{"a b", "*"}, Concurrency: 960, Page: true, Arena: true, Started: true, Chunks: true, Ask: 10, MaxFrame: 1 << 20},
	} {
		h, body, _, _, err := protocol.Split(want.Append(nil), protocol.DefaultFrame)
		if err != nil {
			t.Fatal(err)
		}
		have, err := protocol.ParseWorkerHello(h, body)
		if err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("read %+v (%v), want %+v", have, err, want)
		}
	}
}

func TestHelloDefaults(t *testing.T) {
	t.Parallel()
	h, body, _, _, _ := protocol.Split(hello(pairs("tasks", "a\nb", "caps", "future page")), protocol.DefaultFrame)
	have, err := protocol.ParseWorkerHello(h, body)
	want := protocol.WorkerHello{Tasks: []string{"a", "b"}, Concurrency: 1, Page: true, MaxFrame: protocol.DefaultFrame}
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("read %+v (%v), want %+v", have, err, want)
	}
}

func TestHelloBounds(t *testing.T) {
	t.Parallel()
	for _, kv := range [][]string{
		{"max_frame", "4294967296"}, {"output", ""}, {"output", "9223372036854775808"}, {"pid", "0x1"},
		{"arena.request", "1"}, {"arena.request", "1 2 3"}, {"arena.reply", "1  2"}, {"arena.reply", "a b"}, {"arena.reply", " "},
	} {
		h, body, _, _, _ := protocol.Split(hello(pairs(kv...)), protocol.DefaultFrame)
		if _, err := protocol.ParseHostHello(h, body); !invalid(err) {
			t.Errorf("%q: fault is %v", kv, err)
		}
	}
	if err := protocol.CheckTasks([]string{"a\nb"}); !invalid(err) {
		t.Errorf("a name with a line feed: %v", err)
	}
	many := make([]string, math.MaxUint16+1)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	if err := protocol.CheckTasks(many); !invalid(err) {
		t.Errorf("%d names: %v", len(many), err)
	}
	if err := protocol.CheckTasks(many[:3]); err != nil {
		t.Error(err)
	}
}

func TestNumbersOfTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b   uint32
		before bool
	}{
		{1, 2, true}, {2, 1, false}, {1, 1, false}, {math.MaxUint32, 1, true}, {1, math.MaxUint32, false},
		{1, 1 << 31, true}, {1, 1<<31 + 1, false}, {1 << 31, math.MaxUint32, true},
	} {
		if protocol.Before(c.a, c.b) != c.before {
			t.Errorf("Before(%d, %d) is not %v", c.a, c.b, c.before)
		}
	}
	if protocol.Next(1) != 2 || protocol.Next(math.MaxUint32) != 1 {
		t.Error("Next does not count 1, 2, … and 1 again")
	}
}

func TestMicros(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d  time.Duration
		n  uint32
		ok bool
	}{
		{-1, 0, true}, {0, 0, true}, {1, 1, true}, {time.Microsecond, 1, true}, {time.Microsecond + 1, 2, true},
		{time.Second, 1000000, true}, {math.MaxUint32 * time.Microsecond, math.MaxUint32, true},
		{math.MaxUint32*time.Microsecond + 1, math.MaxUint32, false}, {math.MaxInt64, math.MaxUint32, false},
	} {
		if n, ok := protocol.Micros(c.d); n != c.n || ok != c.ok {
			t.Errorf("Micros(%d) = %d, %v; want %d, %v", c.d, n, ok, c.n, c.ok)
		}
	}
}

func TestCheckPair(t *testing.T) {
	t.Parallel()
	for key, good := range map[string]bool{
		"": false, "k": true, "größe": true, "\xff": false,
		strings.Repeat("k", math.MaxUint16): true, strings.Repeat("k", math.MaxUint16+1): false,
	} {
		if err := protocol.CheckPair(key); (err == nil) != good {
			t.Errorf("key of %d bytes: %v", len(key), err)
		}
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	body := []byte("payload")
	in := run(1, hEcho, "payload")
	out := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(1000, func() {
		h, b, _, _, err := protocol.Split(in, protocol.DefaultFrame)
		if err != nil || protocol.CheckToWorker(h, b) != nil {
			t.Fatal(err)
		}
		out = protocol.AppendFrame(out[:0], protocol.Header{Kind: protocol.Result, ID: h.ID}, body)
	}); n != 0 {
		t.Errorf("%v allocations for one task", n)
	}
}
