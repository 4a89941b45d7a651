package metriclist

import (
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Bucket is a bucket of a histogram as it is shown: Count durations were at most Edge
// seconds.
type Bucket struct {
	Edge  float64
	Count uint64
}

// Buckets returns those of a histogram, but for the one that has all. It fails t unless
// the edges rise, and each is a round number: two digits at most that are not 0.
func Buckets(t *testing.T, m prometheus.Metric) []Bucket {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(one{m}); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families of metrics, %v", len(families), err)
	}
	var all []Bucket
	for _, b := range families[0].GetMetric()[0].GetHistogram().GetBucket() {
		edge := b.GetUpperBound()
		if len(all) > 0 && edge <= all[len(all)-1].Edge {
			t.Errorf("the edge %v follows %v", edge, all[len(all)-1].Edge)
		}
		digits, _, _ := strings.Cut(strconv.FormatFloat(edge, 'e', -1, 64), "e")
		if len(digits) > len("2.5") {
			t.Errorf("the edge %v is not a round number of seconds", edge)
		}
		all = append(all, Bucket{edge, b.GetCumulativeCount()})
	}
	if len(all) == 0 {
		t.Fatalf("%v has no buckets", m.Desc())
	}
	return all
}

// one collects a single metric.
type one struct{ metric prometheus.Metric }

func (o one) Describe(to chan<- *prometheus.Desc) { to <- o.metric.Desc() }
func (o one) Collect(to chan<- prometheus.Metric) { to <- o.metric }
