package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Many jobs are picked and canceled at once.
func TestBulkCancel(t *testing.T) {
	d := start(t, "")
	for n := range 5 {
		d.submit("reports", "task=nightly", fmt.Sprint(n))
	}
	b := newTab(t, d.url, desktop)
	b.open("#/jobs?pool=reports&state=queued")
	b.until("five jobs are listed", `document.querySelectorAll("tbody tr").length === 5`)
	b.run(`document.querySelector("thead input").click()`)
	b.shows("5 jobs selected")
	b.run(`document.querySelector("tbody input").click()`)
	b.shows("4 jobs selected")
	b.press("Cancel jobs")
	b.shows("This cannot be undone.")
	b.press("Cancel 4 jobs")
	b.shows("4 jobs canceled")
	b.until("one is left", `document.querySelectorAll("tbody tr").length === 1`)
	b.open("#/jobs?pool=reports&state=canceled")
	b.until("four are canceled", `document.querySelectorAll("tbody tr").length === 4`)
}

func TestSearchAndPages(t *testing.T) {
	d := start(t, "")
	var bulk strings.Builder
	for n := range 120 {
		fmt.Fprintf(&bulk, `{"task":"nightly","payload":"%d","key":"customer-%03d"}`+"\n", n, n)
	}
	d.bulk("/v1/pools/reports/bulk", bulk.String())
	b := newTab(t, d.url, desktop)
	b.open("#/jobs")
	b.until("a page of fifty is shown", `document.querySelectorAll("tbody tr").length === 50`)
	first := b.run(`document.querySelector("tbody tr a").title`)
	b.press("Older")
	b.shows("page 2")
	b.press("Older")
	b.until("the rest is shown", `document.querySelectorAll("tbody tr").length === 20`)
	b.press("Newer")
	b.press("Newer")
	b.until("the first page is there again", fmt.Sprintf(`document.querySelector("tbody tr a").title === %q`, first))
	b.key("/")
	b.fill("input.search", "customer-077")
	b.until("one is found", `document.querySelectorAll("tbody tr").length === 1`)
	b.until("the address tells what is searched", `location.hash.includes("search=customer-077")`)
	b.fill("input.search", "nobody-at-all")
	b.shows("No job matches the filters.")
}

// A page that is on its way is turned to once.
func TestTurnOnce(t *testing.T) {
	d := start(t, "")
	d.bulk("/v1/pools/reports/bulk", strings.Repeat(`{"task":"nightly"}`+"\n", 120))
	b := newTab(t, d.url, desktop)
	b.open("#/jobs")
	b.until("a page of fifty is shown", `document.querySelectorAll("tbody tr").length === 50`)
	b.run(`(() => {
		const ask = window.fetch, held = new Promise((go) => { window.go = go; });
		window.fetch = async (where, options) => { if (where.includes("&after=")) await held; return ask(where, options); };
	})()`)
	b.press("Older")
	b.shows("page 2")
	b.run(`[...document.querySelectorAll("nav.pages button")].forEach((e) => e.click())`)
	b.run(`window.go()`)
	b.press("Older")
	b.until("the last page is the third", `document.querySelectorAll("tbody tr").length === 20 && document.body.innerText.includes("page 3")`)
}

// A link tells what is shown, and the filters say so, also once the pools are known.
func TestFiltersOfLink(t *testing.T) {
	d := start(t, "")
	id := d.submit("mail", "task=fails", "x")
	d.becomes(id, "dead")
	b := newTab(t, d.url, desktop)
	for _, place := range []string{"#/jobs?pool=thumbnails", "#/dead?pool=thumbnails", "#/workers?pool=thumbnails"} {
		b.do(chromedp.Navigate("about:blank"))
		b.open(place)
		b.until("the pools are known", `document.querySelector("select")?.length === 4`)
		if got := b.run(`document.querySelector("select").value`); got != "thumbnails" {
			t.Errorf("the filter of %s says %q", place, got)
		}
	}
	b.may("/v1/jobs?pool=gone")
	b.open("#/jobs?pool=gone")
	b.until("a pool that is not there is named", `document.querySelector("select")?.value === "gone" && document.querySelector("select").length === 5`)
}

// Dead jobs are grouped by cause, and tried again or removed all at once.
func TestDeadByCause(t *testing.T) {
	d := start(t, "")
	file := filepath.Join(t.TempDir(), "mended")
	var ids []string
	for range 4 {
		ids = append(ids, d.submit("mail", "task=mends", file))
	}
	for n := range 3 {
		ids = append(ids, d.submit("mail", "task=fails", fmt.Sprintf("no room on disk %d", n)))
	}
	for _, id := range ids {
		d.becomes(id, "dead")
	}
	b := newTab(t, d.url, desktop)
	b.open("#/dead")
	b.until("there are two causes", `document.querySelectorAll(".cause").length === 2`)
	counts := b.run(`[...document.querySelectorAll(".cause .big")].map((e) => e.innerText).join()`)
	if counts != "4,3" {
		t.Errorf("the causes have %s jobs", counts)
	}
	b.picture("dead-causes")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.press("Retry all") // of the first cause
	b.shows("Retry 4 jobs?")
	b.press("Retry 4 jobs")
	b.shows("4 jobs enqueued again")
	b.until("one cause is left", `document.querySelectorAll(".cause").length === 1`)
	b.press("Show the 3 jobs")
	b.until("its jobs are listed", `document.querySelectorAll("tbody tr").length === 3`)
	b.run(`document.querySelector("tbody input").click()`)
	b.press("Remove")
	b.press("Remove 1 job")
	b.until("two are left", `document.querySelectorAll("tbody tr").length === 2`)
	b.press("Remove all")
	b.press("Remove all of this cause")
	b.shows("2 jobs removed")
	b.open("#/dead")
	b.shows("There are no dead jobs.")
}

// What somebody else has done meanwhile to some of the dead jobs that were picked
// stops nothing.
func TestDeadPicked(t *testing.T) {
	d := start(t, "")
	var ids []string
	for range 4 {
		ids = append(ids, d.submit("mail", "task=fails", "x"))
	}
	for _, id := range ids {
		d.becomes(id, "dead")
	}
	b := newTab(t, d.url, desktop)
	b.may("404")
	pick := func(rows int) {
		b.open("#/dead?by=job&pool=mail")
		b.until(fmt.Sprintf("%d are listed", rows), fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, rows))
		b.run(`document.querySelector("thead input").click()`)
		b.shows(fmt.Sprintf("%d jobs selected", rows))
	}
	pick(4)
	d.ask("DELETE", "/v1/dead/"+ids[3], "") // the newest, which goes first
	b.press("Remove")
	b.press("Remove 4 jobs")
	b.shows("1 not removed. The first, " + ids[3])
	b.shows("3 jobs removed")
	b.shows("No dead job matches the filters.")
	for range 3 {
		ids = append(ids, d.submit("mail", "task=fails", "x"))
	}
	for _, id := range ids[4:] {
		d.becomes(id, "dead")
	}
	b.open("#/jobs") // another page, so that the list is read again
	pick(3)
	d.ask("DELETE", "/v1/dead/"+ids[6], "")
	b.press("Retry")
	b.press("Retry 3 jobs")
	b.shows("1 not enqueued again. The first, " + ids[6])
	b.shows("2 jobs enqueued again")
}
