package browser

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// On a phone all pages are within reach of a thumb, and a card takes a few lines.
func TestPhone(t *testing.T) {
	d := start(t, "")
	for n := range 3 {
		d.submit("reports", fmt.Sprintf("task=nightly&group=acme&key=customer-%d", n), "x")
	}
	for _, width := range []int64{375, 320} {
		b := newTab(t, d.url, view{width, 667, false})
		b.open("#/jobs")
		b.until("the jobs are listed", `document.querySelectorAll("tbody tr").length === 3`)
		const tabs = `[...document.querySelectorAll("nav[aria-label=Pages] a")]`
		if n := b.run(tabs + `.length`); n != "6" {
			t.Fatalf("%s pages are named", n)
		}
		if bad := b.run(tabs + `.filter((a) => { const r = a.getBoundingClientRect(); return r.left < 0 || r.right > innerWidth || r.top < 0 || r.height < 44 || r.width < 44; }).map((a) => a.innerText + " " + JSON.stringify(a.getBoundingClientRect())).join()`); bad != "" {
			t.Errorf("%d pixels wide, these are cut off or too small for a thumb: %s", width, bad)
		}
		if bad := b.run(`[...document.querySelectorAll("tbody tr")].map((r) => r.getBoundingClientRect().height).filter((h) => h > 100).join()`); bad != "" {
			t.Errorf("%d pixels wide, cards of jobs are %s pixels high", width, bad)
		}
		b.open("#/")
		b.until("the pools are listed", `document.querySelectorAll("tbody tr").length === 3`)
		if bad := b.run(`[...document.querySelectorAll("tbody tr, .tile")].map((r) => r.getBoundingClientRect().height).filter((h) => h > 100).join()`); bad != "" {
			t.Errorf("%d pixels wide, cards of pools are %s pixels high", width, bad)
		}
	}
	b := newTab(t, d.url, desktop)
	b.open("#/")
	b.until("the tiles are there", `document.querySelectorAll(".tile").length === 7`)
	if high := b.run(`Math.max(...[...document.querySelectorAll(".tile")].map((e) => e.offsetHeight))`); len(high) > 2 || high > "54" {
		t.Errorf("a tile is %s pixels high, want 54 at most", high)
	}
}

// A pool that does not work is red and says why, and its age is not taken for that of
// all.
func TestFailingPools(t *testing.T) {
	d := start(t, "", `broken: {command: [sh, -c, "echo no module named torch >&2; exit 3"], workers: {min: 0, max: 1}}`)
	d.submit("broken", "", "x")
	d.submit("reports", "", "x")
	b := newTab(t, d.url, desktop)
	b.open("#/")
	row := func(pool string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((r) => r.querySelector("a").innerText === %q)`, pool)
	}
	b.until("the pool is shown as broken", row("broken")+`?.innerText.includes("does not start")`)
	b.shows("broken has workers that do not start.")
	b.shows("no module named torch")
	if red, others := b.run(`getComputedStyle(`+row("broken")+`).backgroundColor`), b.run(`getComputedStyle(`+row("mail")+`).backgroundColor`); red != "rgb(252, 230, 228)" || others == red {
		t.Errorf("the broken pool is %s, another one %s", red, others)
	}
	b.until("the title counts it", `document.title === "(1) Overview · Bullpen"`)
	b.until("the oldest is that of another pool", `document.querySelector(".tile small a")?.title === "in reports"`)
	for range 5 {
		d.submit("thumbnails", "task=fails", "x")
	}
	b.until("a pool of which most tasks fail is red", row("thumbnails")+`.className === "ill" && `+row("thumbnails")+`.innerText.includes("failing")`)
	b.picture("failing-pools")
}

// The list of jobs has their keys, and how many there are in each state.
func TestJobsTellKeysAndCounts(t *testing.T) {
	d := start(t, "")
	d.submit("reports", "key=customer-17", "x")
	d.submit("reports", "", "x")
	d.submit("reports", "delay=1h", "x")
	d.becomes(d.submit("mail", "task=fails", "row 7 is bad"), "dead")
	d.becomes(d.submit("mail", "task=upper", "x"), "done")
	d.ask("POST", "/v1/jobs/"+d.submit("reports", "", "x")+"/cancel", "")
	b := newTab(t, d.url, desktop)
	count := func(want string) {
		t.Helper()
		b.until("the counts are "+want, fmt.Sprintf(`[...document.querySelectorAll(".chips .chip")].map((c) => c.innerText.replace(/\s+/g, " ")).join() === %q`, want))
	}
	b.open("#/jobs")
	count("all,queued 2,running 0,scheduled 1,retrying 0,done 1,canceled 1,dead 1")
	head := `[...document.querySelectorAll("thead th")].map((c) => c.innerText).join()`
	b.until("keys and errors have columns", head+`.includes("Task,Key,Pool,State,Attempts,Enqueued,Run time,Error")`)
	b.until("the key is shown", `[...document.querySelectorAll("td[data-name=Key]")].filter((c) => c.innerText === "customer-17").length === 1`)
	b.until("a scheduled one says when", `/scheduled in \d+ min/.test(document.querySelector("tbody").innerText.replace(/\s+/g, " "))`)
	b.open("#/jobs?pool=mail")
	count("all,queued 0,running 0,scheduled 0,retrying 0,done 1,canceled 0,dead 1")
	b.until("without keys no column is for them", `document.querySelectorAll("tbody tr").length === 2 && !`+head+`.includes("Key")`)
	b.open("#/jobs?search=row")
	count("all,queued,running,scheduled,retrying,done,canceled,dead") // they would be those of other jobs
}

// A batch is shown by its key, also where its jobs are.
func TestBatchesHaveNames(t *testing.T) {
	d := start(t, "")
	var made struct{ ID string }
	if err := json.Unmarshal(d.ask("POST", "/v1/batches", `{"key":"import-8","pool":"reports","jobs":[{"task":"row","payload":"x"}]}`), &made); err != nil {
		t.Fatal(err)
	}
	d.ask("POST", "/v1/batches", `{"pool":"reports","jobs":[{"task":"row"}]}`)
	b := newTab(t, d.url, desktop)
	b.open("#/jobs?batch=" + made.ID)
	b.shows("batch: import-8")
	b.press(b.run(`document.querySelector("tbody a.id")?.innerText || ""`))
	b.until("the job names its batch", `[...document.querySelectorAll("dd a")].some((a) => a.innerText === "import-8")`)
	b.open("#/batches")
	b.until("one without a key says so", `/import-8[^]*without a key|without a key[^]*import-8/.test(document.querySelector("tbody")?.innerText)`)
}

// Times say in which zone they are.
func TestTimesHaveZones(t *testing.T) {
	d := start(t, "")
	id := d.submit("reports", "task=nightly", "x")
	d.ask("PUT", "/v1/schedules/weekly", `{"pool":"reports","cron":"30 2 * * 1","zone":"Asia/Tokyo","job":{"payload_base64":"/wAB"}}`)
	b := newTab(t, d.url, desktop)
	b.do(emulation.SetTimezoneOverride("Asia/Kolkata"))
	b.open("#/jobs/" + id)
	b.until("the job's time has the zone of the browser", `/Enqueued.*GMT\+5:30/.test(document.querySelector(".timeline")?.innerText.replace(/\s+/g, " "))`)
	b.open("#/")
	b.shows("times in GMT+5:30")
	b.open("#/schedules/weekly")
	b.until("ticks have the zone of the schedule", `(document.querySelector("main").innerText.match(/T02:30:00\+09:00/g) || []).length === 3`)
	b.shows("binary, 3 B")
	b.shows("ff 00 01")
}

// What a job got is shown when it has ended too, and where it is gone, the page says so in
// the words of the daemon.
func TestPayloadOfEndedJob(t *testing.T) {
	d := start(t, "")
	id := d.submit("mail", "task=upper", `{"a":[1]}`)
	d.becomes(id, "done")
	b := newTab(t, d.url, desktop)
	b.may("/payload", "ERR_FAILED")
	for _, c := range []struct {
		answer, shows string
		there         bool
	}{
		{`new Response('{"a":[1]}')`, "\"a\": [\n    1", true},
		{`new Response(new Uint8Array(5000))`, "binary, 4.88 KiB; showing the first 1 KiB", true},
		{`new Response('{"status":404,"cause":"not-found","detail":"there is no such job"}', {status: 404})`, "The payload is no longer kept.", false},
		{`new Response('{"status":410,"cause":"payload-gone","detail":"beyond keep.payloads"}', {status: 410})`, "beyond keep.payloads", false},
		{`Promise.reject(new TypeError("no way"))`, "The daemon cannot be reached.", false},
	} {
		b.open("#/")
		b.shows("Last hour")
		b.run(fmt.Sprintf(`(() => {
			window.ask ||= window.fetch;
			window.fetch = (where, options) => where === "/v1/jobs/%s/payload" ? %s : window.ask(where, options);
		})()`, id, c.answer))
		b.run(fmt.Sprintf(`location.hash = "#/jobs/%s"`, id))
		b.until("the payload is "+c.shows, fmt.Sprintf(`[...document.querySelectorAll("section")].find((s) => s.querySelector("h2").innerText === "Payload")?.innerText.includes(%q)`, c.shows))
		again := b.run(`[...document.querySelectorAll("button")].some((e) => e.innerText === "Run again")`)
		if again != fmt.Sprint(c.there) {
			t.Errorf("%s: that the job can be run again is %s", c.answer, again)
		}
	}
	b.run(`window.fetch = window.ask`)
	b.press("Try again")
	b.hides("The daemon cannot be reached.")
}
