package jet

import (
	"fmt"
	"testing"
)

func TestParseReply(t *testing.T) {
	t.Parallel()
	want := handout{deliveries: 2, seq: 34, stored: 1795257137400040000, waiting: 7}
	for _, reply := range []string{
		"$JS.ACK.BP_x_JOBS.w_mail_high.2.34.56.1795257137400040000.7",
		"$JS.ACK._.hash.BP_x_JOBS.w_mail_high.2.34.56.1795257137400040000.7",
		"$JS.ACK.hub.hash.BP_x_JOBS.w_mail_high.2.34.56.1795257137400040000.7.random",
	} {
		if got, ok := parseReply(reply); !ok || got != want {
			t.Errorf("parseReply(%s) = %+v, %v, want %+v", reply, got, ok, want)
		}
	}
	for _, bad := range []string{
		"", "$JS.ACK.", "$JS.ACK.s.c", "$JS.ACK.s.c.1.2.3.4", "$JS.ACK.s.c.0.2.3.4.5", "$JS.ACK.s.c.1.0.3.4.5",
		"$JS.ACK.s.c.1.2.3.x.5", "$JS.ACK.s.c.1.2.3.9223372036854775808.5", "$JS.NAK.s.c.1.2.3.4.5",
	} {
		if got, ok := parseReply(bad); ok {
			t.Errorf("parseReply(%q) = %+v, want none", bad, got)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add("$JS.ACK.s.c.1.2.3.4.5")
	f.Add("$JS.ACK.d.a.s.c.1.2.3.4.5.r")
	f.Add("$JS.ACK........")
	f.Fuzz(func(t *testing.T, reply string) {
		h, ok := parseReply(reply)
		if !ok {
			return
		}
		if h.deliveries == 0 || h.seq == 0 || h.stored < 0 {
			t.Fatalf("parseReply(%q) = %+v, which no server says", reply, h)
		}
		again := fmt.Sprintf("$JS.ACK.s.c.%d.%d.1.%d.%d", h.deliveries, h.seq, h.stored, h.waiting)
		if got, ok := parseReply(again); !ok || got != h {
			t.Fatalf("parseReply(%q) = %+v, %v, want %+v", again, got, ok, h)
		}
	})
}
