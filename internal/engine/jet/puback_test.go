package jet

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

const begins = `{"stream":"BP_x_JOBS","seq":`

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data string
		want verdict
	}{
		{`{"stream":"BP_x_JOBS","seq":7}`, verdict{seq: 7}},
		{`{"stream":"BP_x_JOBS","seq":18446744073709551615}`, verdict{seq: math.MaxUint64}},
		{`{"stream":"BP_x_JOBS","domain":"hub","seq":12}`, verdict{seq: 12}},
		{`{"stream":"BP_x_JOBS", "seq": 8}`, verdict{seq: 8}},
		{`{"stream":"BP_x_JOBS","seq":9,"duplicate":true}`, verdict{seq: 9}},
		{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"BP_x_JOBS","seq":0}`,
			verdict{code: codeWrongLast, description: "wrong last sequence: 5"}},
		{`{"error":{"code":503,"description":"odd"}}`, verdict{code: 503, description: "odd"}},
		{`{"error":{}}`, verdict{code: 1}},
	} {
		if got := parseAnswer(begins, []byte(c.data)); got != c.want {
			t.Errorf("parseAnswer(%s) = %+v, want %+v", c.data, got, c.want)
		}
	}
	for _, bad := range []string{"", "{", "}", begins, begins + "}", begins + "0}", begins + "18446744073709551616}", begins + "-1}", begins + "1", `{"seq":0}`, "[]"} {
		if got := parseAnswer(begins, []byte(bad)); got.code != badAnswer {
			t.Errorf("parseAnswer(%q) = %+v, want a bad answer", bad, got)
		}
	}
}

func TestVerdictErr(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    verdict
		want error
	}{
		{verdict{seq: 1}, nil},
		{verdict{code: codeWrongLast}, engine.ErrConflict},
		{verdict{code: codeNoStorage}, engine.ErrFull},
		{verdict{code: codeNoResources}, engine.ErrFull},
		{verdict{code: codeStoreFailed, description: "maximum bytes exceeded"}, engine.ErrFull},
		{verdict{code: codeStoreFailed, description: "write: no space left on device"}, engine.ErrFull},
		{verdict{code: badAnswer}, engine.ErrUnknown},
	} {
		if got := c.v.err(engine.Jobs); !errors.Is(got, c.want) || (c.want == nil) != (got == nil) {
			t.Errorf("%+v.err = %v, want %v", c.v, got, c.want)
		}
	}
	// Nothing was stored, and the store has not failed: the reasons have words only.
	for _, v := range []verdict{{code: noAnswerer}, {code: codeTooLarge}, {code: codeStoreFailed, description: "store is closed"}, {code: 10999}} {
		err := v.err(engine.Jobs)
		for _, not := range []error{engine.ErrConflict, engine.ErrFull, engine.ErrFailed, engine.ErrUnknown} {
			if err == nil || errors.Is(err, not) {
				t.Errorf("%+v.err = %v, want an error that is not %v", v, err, not)
			}
		}
	}
}

// FuzzParseAnswer holds the short way against the long one.
func FuzzParseAnswer(f *testing.F) {
	for _, s := range []string{begins + "7}", begins + "}", `{"seq":3}`, `{"error":{"err_code":10071}}`, begins + "1}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v := parseAnswer(begins, data)
		if (v.code == 0) != (v.seq > 0) {
			t.Fatalf("parseAnswer(%q) = %+v: neither stored nor not", data, v)
		}
		if v.code != 0 {
			return
		}
		var long struct {
			Seq uint64 `json:"seq"`
		}
		if err := json.Unmarshal(data, &long); err != nil || long.Seq != v.seq {
			// The short way takes leading zeros, which are no JSON.
			if n, ok := number(data[len(begins) : len(data)-1]); !ok || n != v.seq {
				t.Fatalf("parseAnswer(%q) = %+v, the long way gives %d, %v", data, v, long.Seq, err)
			}
		}
	})
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "1a", "-1", " 1", "18446744073709551616", "99999999999999999999", "1_0"} {
		if n, ok := number(s); ok {
			t.Errorf("number(%q) = %d, want none", s, n)
		}
	}
	for _, n := range []uint64{0, 1, 10, math.MaxInt64, math.MaxUint64} {
		if got, ok := number(strconv.FormatUint(n, 10)); !ok || got != n {
			t.Errorf("number of %d = %d, %v", n, got, ok)
		}
	}
}
