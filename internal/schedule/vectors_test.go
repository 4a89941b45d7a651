package schedule

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// vectors is the file that other languages walk too.
type vectors struct {
	Version int
	Ticks   []struct {
		Name, Cron, Zone string
		From             time.Time
		Next             []time.Time
	}
	Errors []struct {
		Name, Cron string
		Fields     []string
	}
}

func readVectors(tb testing.TB) vectors {
	tb.Helper()
	text, err := os.ReadFile("../../protocol/vectors/cron.json")
	if err != nil {
		tb.Fatal(err)
	}
	var all vectors
	if err := json.Unmarshal(text, &all); err != nil {
		tb.Fatal(err)
	}
	if all.Version != 1 || len(all.Ticks) < 50 || len(all.Errors) < 50 {
		tb.Fatalf("version %d, %d of ticks, %d of errors; want 1 and at least 50 of both", all.Version, len(all.Ticks), len(all.Errors))
	}
	return all
}

func zone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return z
}

func cron(tb testing.TB, text string, z *time.Location) *Rule {
	tb.Helper()
	r, err := Cron(text, z)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Ticks {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			r := cron(t, v.Cron, zone(t, v.Zone))
			at := v.From
			for _, want := range v.Next {
				at = r.Next(at)
				if got, want := at.Format(time.RFC3339), want.Format(time.RFC3339); got != want {
					t.Fatalf("after %v the next is %s, want %s", v.From, got, want)
				}
			}
			got := r.Between(v.From, at, len(v.Next)+1)
			if !slices.EqualFunc(got, v.Next, time.Time.Equal) {
				t.Errorf("Between gives %v, want %v", got, v.Next)
			}
			again := cron(t, r.String(), zone(t, v.Zone))
			if *r.at(nil) != *again.at(nil) {
				t.Errorf("%q parses to another rule than %q", r, v.Cron)
			}
		})
	}
}

// at returns a copy of the rule in another zone, for comparisons.
func (r *Rule) at(z *time.Location) *Rule {
	other := *r
	other.zone = z
	return &other
}

func TestVectorErrors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Errors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			r, err := Cron(v.Cron, time.UTC)
			if err == nil {
				t.Fatalf("Cron(%q) = %v, want an error", v.Cron, r)
			}
			faults := strings.Split(err.Error(), "\n")
			if len(faults) != max(1, len(v.Fields)) {
				t.Errorf("%d faults, want %d: %v", len(faults), max(1, len(v.Fields)), err)
			}
			for i, f := range v.Fields {
				if i < len(faults) && !strings.Contains(faults[i], `": `+f+": ") {
					t.Errorf("%q does not name the field %q", faults[i], f)
				}
			}
			if !strings.Contains(err.Error(), "write ") && !strings.Contains(err.Error(), "give ") && !strings.Contains(err.Error(), "leave out") && !strings.Contains(err.Error(), "enqueue") {
				t.Errorf("%q does not say what to do", err)
			}
		})
	}
}
