package lines

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		end     byte
		payload string
		fault   string
	}{
		{'\n', "", ""},
		{'\n', "one line", ""},
		{'\n', "NUL \x00 in it", ""},
		{'\n', "two\nlines", "a line feed"},
		{0, "two\nlines", ""},
		{0, "two\x00texts", "a NUL byte"},
	} {
		codec := &Codec{End: c.end, Limit: 100}
		err := codec.Check(&bullpen.Task{Payload: []byte(c.payload)})
		if (err == nil) != (c.fault == "") {
			t.Errorf("Check(%q) = %v, want a fault: %q", c.payload, err, c.fault)
		}
		if err != nil && (!errors.Is(err, bullpen.ErrRefused) || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("Check(%q) = %v, which does not say %q", c.payload, err, c.fault)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	codec := &Codec{End: '\n', Limit: 5}
	for _, c := range []struct {
		in, body string
		n        int
		long     bool
	}{
		{"", "", 0, false},
		{"abc", "", 0, false},
		{"\n", "", 1, false},
		{"abc\ndef\n", "abc", 4, false},
		{"abcde\n", "abcde", 6, false},
		{"abcdef\n", "", 0, true},
		{"abcdef", "", 0, true},
	} {
		m, n, need, err := codec.Next([]byte(c.in))
		if n != c.n || string(m.Body) != c.body || errors.Is(err, wire.ErrLong) != c.long {
			t.Errorf("Next(%q) = %q, %d, %v", c.in, m.Body, n, err)
		}
		if n == 0 && err == nil && need <= len(c.in) {
			t.Errorf("Next(%q) needs %d bytes, and has %d", c.in, need, len(c.in))
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), byte('\n'))
	f.Add([]byte("a\x00b"), byte(0))
	f.Fuzz(func(t *testing.T, payload []byte, end byte) {
		codec := &Codec{End: end, Limit: 1 << 20}
		task := bullpen.Task{Payload: payload}
		if codec.Check(&task) != nil {
			return
		}
		out := codec.AppendTask(nil, wire.Task{Number: 1, Task: &task})
		m, n, _, err := codec.Next(append(out, "next"...))
		if err != nil || n != len(out) || m.Kind != protocol.Result || !bytes.Equal(m.Body, payload) {
			t.Errorf("%q came back as %q, %d of %d bytes, %v", payload, m.Body, n, len(out), err)
		}
	})
}
