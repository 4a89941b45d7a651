package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/client"
)

// sample is the state of a daemon at one moment.
type sample struct {
	at     time.Time
	status client.Status
	pools  []client.Pool
	err    error
}

// topView is the content of bullpen top: the last good sample, the one before it for
// rates, and why there is no newer one.
type topView struct {
	address      string
	last, before *sample
	trouble      string
}

// take adds a sample. A failed one leaves the last good sample in place.
func (v *topView) take(s *sample, trouble string) {
	v.trouble = trouble
	if s.err == nil {
		v.before, v.last = v.last, s
	}
}

// draw returns the screen: at most rows lines (0 is any number), none longer than the
// style's width.
func (v *topView) draw(s style, rows int, now time.Time) string {
	lines := []string{v.head(s, now)}
	if v.trouble != "" {
		lines = append(lines, painted(fitted(v.trouble, s), toneBad, s))
	}
	if v.last != nil {
		lines = append(lines, fitted(v.sums(), s), "")
		table := strings.Split(strings.TrimSuffix(v.table(now).draw(s), "\n"), "\n")
		room := max(rows-len(lines), 2)
		if rows > 0 && len(table) > room {
			hidden := len(table) - room + 1
			table = append(table[:room-1], fitted(fmt.Sprintf("… %s more; see: bullpen pool ls", plural(hidden, "pool")), s))
		}
		lines = append(lines, table...)
		if len(v.last.pools) == 0 {
			lines = append(lines, fitted("the daemon has no pools", s))
		}
	}
	if len(lines) > rows && rows > 0 {
		lines = lines[:rows]
	}
	return strings.Join(lines, "\n") + "\n"
}

func fitted(text string, s style) string {
	text = plain(text)
	if s.width > 0 {
		return shorten(text, s.width)
	}
	return text
}

func painted(text string, t tone, s style) string {
	var b strings.Builder
	colour(&b, text, t, s.colours)
	return b.String()
}

// head returns the first line: the daemon's address and status.
func (v *topView) head(s style, now time.Time) string {
	parts := []string{"bullpen top", v.address}
	if v.last != nil {
		st := &v.last.status
		parts = append(parts, st.Node)
		switch {
		case st.Stopping:
			parts = append(parts, "stopping")
		case !st.Live:
			parts = append(parts, "not live")
		case !st.Ready:
			parts = append(parts, "not ready")
		default:
			parts = append(parts, "ready")
		}
		parts = append(parts, "up "+ageText(st.Uptime))
	}
	text := strings.Join(parts, "  ")
	clock := now.Format("15:04:05")
	if pad := s.width - columnsOf(plain(text)) - len(clock); pad > 1 {
		return plain(text) + strings.Repeat(" ", pad) + clock
	}
	return fitted(text, s)
}

// sums returns the second line: the sums over all pools.
func (v *topView) sums() string {
	var d depth
	busy, up := 0, 0
	for i := range v.last.pools {
		p := &v.last.pools[i]
		of := depthOf(p)
		d.waiting, d.taken = d.waiting+of.waiting, d.taken+of.taken
		busy += p.Workers.Busy
		up += p.Workers.Busy + p.Workers.Idle + p.Workers.Starting + p.Workers.Leaving
	}
	text := fmt.Sprintf("%s waiting, %s running; %d of %s busy", plural(d.waiting, "job"), countText(d.taken), busy, plural(up, "worker"))
	if v.before != nil {
		var rate float64
		for i := range v.last.pools {
			if ok, bad, known := v.rates(&v.last.pools[i]); known {
				rate += ok + bad
			}
		}
		text += fmt.Sprintf("; %s tasks/s", figure(rate))
	}
	return text
}

// rates returns how many tasks of a pool ended well and badly per second, between the
// last two samples.
func (v *topView) rates(p *client.Pool) (ok, bad float64, known bool) {
	if v.before == nil {
		return 0, 0, false
	}
	took := v.last.at.Sub(v.before.at).Seconds()
	for i := range v.before.pools {
		b := &v.before.pools[i]
		// The counters of a restarted daemon begin at zero again.
		if b.Name != p.Name || took <= 0 || p.Outcomes["ok"] < b.Outcomes["ok"] || badOnes(p) < badOnes(b) {
			continue
		}
		return float64(p.Outcomes["ok"]-b.Outcomes["ok"]) / took, float64(badOnes(p)-badOnes(b)) / took, true
	}
	return 0, 0, false
}

func (v *topView) table(now time.Time) *table {
	t := newTable("POOL", "STATE", ">BUSY/UP/MAX", ">WAITING", ">RUNNING", ">OLDEST", ">OK/S", ">BAD/S", ">OK", ">BAD", ">DEATHS", ">WAIT50", ">WAIT99", ">RUN50", ">RUN99", "NOTE")
	t.spare = []int{8, 9, 11, 13, 12, 4, 14}
	for i := range v.last.pools {
		p := &v.last.pools[i]
		d := depthOf(p)
		done, failed, died := endingsOf(p)
		okRate, badRate := "", ""
		if ok, bad, known := v.rates(p); known && p.State != "queue-only" {
			okRate, badRate = figure(ok), figure(bad)
		}
		t.addCells(
			cell{text: p.Name}, poolState(p), cell{text: workersText(p)},
			cell{text: countText(d.waiting)}, cell{text: countText(d.taken)}, cell{text: sinceText(d.oldest, now)},
			cell{text: okRate}, alarming(badRate, badRate != "" && badRate != "0"),
			done, failed, died,
			cell{text: spanText(p.WaitP50)}, cell{text: spanText(p.WaitP99)}, cell{text: spanText(p.RunP50)}, cell{text: spanText(p.RunP99)},
			troubleText(p),
		)
	}
	return t
}
