package units_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/internal/units"
)

func TestMain(m *testing.M) { leak.Main(m) }

func check[T comparable](t *testing.T, name string, parse func(string) (T, error), good map[string]T, bad ...string) {
	t.Helper()
	for text, want := range good {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%s(%q) = %v, %v, want %v", name, text, got, err, want)
		}
	}
	for _, text := range bad {
		if got, err := parse(text); err == nil {
			t.Errorf("%s(%q) = %v, want an error", name, text, got)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	check(t, "Duration", units.Duration, map[string]time.Duration{
		"2": 2 * time.Second, "0.5": time.Second / 2, "10ms": 10 * time.Millisecond, "1m": time.Minute, "1h30m": 90 * time.Minute, "0": 0, "1e3": 1000 * time.Second,
	}, "", "-1", "-1s", "x", "NaN", "Inf", "1e99", "1 s")
	check(t, "Size", units.Size, map[string]int64{
		"0": 0, "1": 1, "1K": 1024, "1k": 1024, "1kb": 1000, "64MiB": 64 << 20, "1.5G": 3 << 29, "2 MB": 2e6, "999999TB": 999999e12, "999999999999999": 999999999999999,
	}, "", "-1", "K", "1X", "1e99", "NaN", "9999999T", "1 M B")
	check(t, "CPU", units.CPU, map[string]float64{"0.5": 0.5, "0.01": 0.01, "8192": 8192}, "", "a", "0", "-1", "NaN", "Inf", "1e9", "0.001")
	check(t, "Number", func(s string) (float64, error) { return units.Number(s, 0, 10) }, map[string]float64{"0": 0, "10": 10, "2.5": 2.5}, "", "-1", "11", "NaN", "Inf", "x")
}

// FuzzUnits wants what is parsed to be in bounds, and to be the same when it is written as
// Go writes it.
func FuzzUnits(f *testing.F) {
	for _, text := range []string{"1h30m", "0.5", "1.5G", "2 MB", "0x1p3", "1e3", "-0", "9223372036854775807", ".5", "1_0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := units.Duration(text); err == nil {
			if again, err := units.Duration(d.String()); d < 0 || err != nil || again != d {
				t.Errorf("%q is %v, which is %v, %v", text, d, again, err)
			}
		}
		if n, err := units.Size(text); err == nil {
			again, err := units.Size(strconv.FormatInt(n, 10))
			if n < 0 || n > 1<<62 || err != nil || n < 1<<53 && again != n {
				t.Errorf("%q is %v, which is %v, %v", text, n, again, err)
			}
		}
		if n, err := units.CPU(text); err == nil && !(n >= 0.01 && n <= 8192) {
			t.Errorf("%q is %v processors", text, n)
		}
	})
}
