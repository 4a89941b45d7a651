package confine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestForkRequestIsBounded(t *testing.T) {
	for _, c := range []struct {
		r    forked
		want error
	}{
		{forked{args: []string{"a\x00b"}}, syscall.EINVAL},
		{forked{env: []string{"A=\x00"}}, syscall.EINVAL},
		{forked{args: []string{strings.Repeat("x", wireString)}}, syscall.E2BIG},
		{forked{env: slicesOf(strings.Repeat("x", wireString-1), wireBody/wireString+1)}, syscall.E2BIG},
	} {
		if _, err := c.r.body(); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

func slicesOf(s string, n int) (list []string) {
	for range n {
		list = append(list, s)
	}
	return list
}

// The wire as it is written down in zygote.py.
func TestForkRequestWire(t *testing.T) {
	r := &forked{id: 0x01020304, flags: forkMortal | forkRuleset, files: 3, groups: 2, namespaces: 1, dir: "/d", filter: []byte{9, 8}, args: []string{"-c", ""}, env: []string{"A=1"}}
	body, err := r.body()
	if err != nil {
		t.Fatal(err)
	}
	want := "\x01\x01\x0a\x00\x04\x03\x02\x01\x03\x00\x02\x00\x01\x00\x00\x00" +
		"\x02\x00\x00\x00/d\x00\x00\x00\x00\x02\x00\x00\x00\x09\x08\x02\x00\x00\x00\x02\x00\x00\x00-c\x00\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00A=1"
	if got := string(r.head()) + string(body); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func FuzzForkReply(f *testing.F) {
	f.Add([]byte("\x01\x01\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x05\x00\x00\x01\x00\x00\x00no\xff"))
	f.Add([]byte("\x02\x05\x00\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseReply(b)
		if err != nil {
			return
		}
		head := append([]byte{wireVersion, r.kind, 0, 0}, binary.LittleEndian.AppendUint32(nil, r.id)...)
		if !bytes.HasPrefix(b, head) || r.text != strings.ToValidUTF8(string(b[wireReplyHead:]), "�") {
			t.Fatalf("%q became %+v", b, r)
		}
	})
}
