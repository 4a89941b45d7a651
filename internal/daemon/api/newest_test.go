package api

import (
	"net/url"
	"slices"
	"testing"
)

// TestAllNewestFirst wants a list of all jobs to be newest first, whatever they do,
// and to be the same whatever its pages are.
func TestAllNewestFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var want []string // the oldest first
	for i := range 12 {
		switch i % 3 {
		case 0:
			id := s.submit("", "x")
			s.ended(id)
			want = append(want, id)
		case 1:
			want = append(want, s.submit("delay=1h", ""))
		case 2:
			want = append(want, s.submit("task=hold", ""))
		}
	}
	slices.Reverse(want)
	for _, limit := range []string{"1", "5", "100"} {
		var got []string
		for after, pages := "", 0; pages < 40; pages++ {
			path := "/v1/jobs?order=newest&limit=" + limit
			if after != "" {
				path += "&after=" + url.QueryEscape(after)
			}
			p := decode[listPage](t, s.do("GET", path, ""))
			for i := range p.Jobs {
				got = append(got, p.Jobs[i].ID)
			}
			if after = p.Next; after == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("with pages of %s the list is\n%v, want\n%v", limit, got, want)
		}
	}
	if r := s.do("GET", "/v1/jobs?order=newest&after=n.1.x.1", ""); r.status != 400 {
		t.Errorf("a position that is none is answered with %d", r.status)
	}
}
