package trace

import (
	"strings"
	"testing"
)

const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		valid:                               true,
		valid[:53] + "00":                   true,
		valid[:53] + "ff":                   true,
		"cc" + valid[2:]:                    true, // a version to come
		"cc" + valid[2:] + "-what-comes":    true,
		valid + "-more":                     false,
		"cc" + valid[2:] + ".more":          false,
		"ff" + valid[2:]:                    false,
		"":                                  false,
		"00-1":                              false,
		valid[:54]:                          false,
		strings.ToUpper(valid):              false,
		strings.Replace(valid, "-", "_", 1): false,
		strings.Replace(valid, "4bf9", "4bg9", 1):    false,
		"00-" + strings.Repeat("0", 32) + valid[35:]: false,
		valid[:36] + strings.Repeat("0", 16) + "-01": false,
		valid[:53] + "0x":                       false,
		strings.Repeat("\xff", traceparentSize): false,
	} {
		c, ok := Parse(text)
		if ok != want {
			t.Errorf("%q is read: %v, want %v", text, ok, want)
		}
		if !ok && c != (Context{}) {
			t.Errorf("%q gives %v", text, c)
		}
		if again, _ := Parse(c.String()); ok && again != c {
			t.Errorf("%q is read as %v, and that as %v", text, c, again)
		}
	}
	if c, _ := Parse(valid); c.String() != valid || !c.Sampled || c.Trace.String() != valid[3:35] || c.Span.String() != valid[36:52] {
		t.Errorf("%q is written as %v", valid, c)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(valid)
	f.Add("cc" + valid[2:] + "-x")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := Parse(text)
		if !ok {
			return
		}
		if again, fine := Parse(c.String()); !fine || again != c {
			t.Errorf("%q is read as %v, and that as %v, %v", text, c, again, fine)
		}
	})
}

// TestSampler takes about the configured share of any ids.
func TestSampler(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for _, share := range []float64{0, 0.01, 0.5, 1} {
		byRandom, byJob := 0, 0
		s := newSampler(share)
		for i := range n {
			if s.takes(newID()) {
				byRandom++
			}
			if own, _ := jobSpan(strings.Repeat("x", i%7) + string(rune('a'+i%26)) + newSpanID().String()); s.takes(own) {
				byJob++
			}
		}
		for _, got := range []int{byRandom, byJob} {
			if off := float64(got)/n - share; off > 0.03 || off < -0.03 || share == 1 && got != n || share == 0 && got != 0 {
				t.Errorf("a share of %v took %d of %d", share, got, n)
			}
		}
	}
	// The samplers of OpenTelemetry go by the same bytes.
	id := ID{15: 0}
	id[8] = 0x7f
	if newSampler(0.49).takes(id) || !newSampler(0.5).takes(id) {
		t.Error("the share of 0x7f00000000000000 is not a little below a half")
	}
}

// TestJobSpan wants the ids of jobs to stay what they are: other versions of the
// daemon run other attempts of them.
func TestJobSpan(t *testing.T) {
	t.Parallel()
	own, span := jobSpan("01M7ZFB3FB5GGDHH7V3RA6KNW6")
	if own.String() != "97dd5a163116b591ccd25d09f51632fa" || span.String() != "17db72f87b9a3d32" {
		t.Errorf("the trace is %v, the span %v", own, span)
	}
}
