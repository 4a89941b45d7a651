package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSchedules(t *testing.T) {
	d := start(t, "")
	d.ask("PUT", "/v1/schedules/weekly", `{"pool":"reports","cron":"30 2 * * 1","zone":"Europe/Berlin","job":{"task":"report","payload":"daily"}}`)
	b := newTab(t, d.url, desktop)
	b.open("#/schedules")
	b.shows("30 2 * * 1")
	b.shows("Europe/Berlin")
	b.press("Run weekly now")
	b.shows("Run weekly now?")
	b.press("Run now")
	b.shows("enqueued as ")
	b.press("weekly")
	b.shows("run the latest")
	b.until("its last job is shown", `document.querySelector("main a.id") !== null`)
	b.press("Pause weekly")
	b.until("it is paused", `document.querySelector("h1 .badge")?.innerText === "paused"`)
	if s := string(d.ask("GET", "/v1/schedules/weekly", "")); !strings.Contains(s, `"paused":true`) {
		t.Errorf("the daemon says %s", s)
	}
	b.press("Resume weekly")
	b.until("it goes on", `document.querySelector("h1 .badge") === null`)
	b.picture("schedule")
	b.press("Show jobs")
	b.until("its job is listed", `document.querySelectorAll("tbody tr").length === 1`)
	b.open("#/schedules/weekly")
	b.press("Remove")
	b.shows("This cannot be undone.")
	b.press("Remove")
	b.shows("There are no schedules.")
}

func TestBatches(t *testing.T) {
	d := start(t, "")
	var made struct{ ID string }
	body := `{"key":"import-8","pool":"thumbnails","jobs":[{"task":"upper","payload":"a"},{"task":"fails","payload":"x"},{"pool":"reports","task":"later"},{"pool":"reports","task":"later"}],` +
		`"then":{"pool":"reports","task":"all-done"},"failed":{"pool":"reports","task":"alarm"},"meta":{"by":"me"}}`
	if err := json.Unmarshal(d.ask("POST", "/v1/batches", body), &made); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, d.url, desktop)
	b.open("#/batches")
	b.shows("import-8")
	b.until("its progress is shown", `/2 of 4/.test(document.querySelector("tbody").innerText)`)
	b.press("import-8")
	b.shows("1 failed")
	b.shows("alarm in reports")
	b.until("its jobs are listed", `document.querySelectorAll("tbody tr").length === 4`)
	b.picture("batch")
	b.press("Cancel")
	b.shows("It has 2 jobs that have not ended")
	b.press("Cancel batch")
	b.until("it is canceled", `document.querySelector("h1 .badge").innerText === "canceled"`)
	b.open("#/jobs?batch=" + made.ID)
	b.until("the list of jobs has its own", `document.querySelectorAll("tbody tr").length === 4`)
}

// What becomes of batches is shown without loading the page again, to the end.
func TestBatchesLive(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.open("#/batches")
	b.shows("There are no batches.")
	var made struct{ ID string }
	if err := json.Unmarshal(d.ask("POST", "/v1/batches", `{"key":"slowly","pool":"reports"}`), &made); err != nil {
		t.Fatal(err)
	}
	b.until("the batch is listed", `document.querySelector("tbody")?.innerText.includes("slowly")`)
	d.ask("POST", "/v1/batches", `{"key":"later","pool":"reports"}`)
	b.until("the newest is listed first", `/later[^]*slowly/.test(document.querySelector("tbody").innerText)`)
	list, one := b, newTab(t, d.url, desktop)
	one.open("#/batches/" + made.ID)
	one.shows("It has no jobs yet.")
	d.bulk("/v1/batches/"+made.ID+"/jobs?offset=0", `{"pool":"mail","task":"upper","payload":"a"}`+"\n"+`{"pool":"reports","task":"later"}`+"\n")
	one.until("its jobs are shown as they are", `/done[^]*queued/.test(document.querySelector("tbody")?.innerText)`)
	list.until("one is counted", `/1 of 2 so far/.test(document.querySelector("tbody").innerText)`)
	d.ask("POST", "/v1/batches/"+made.ID+"/seal", `{"total":2}`)
	list.until("it is sealed", `/1 of 2(?! so far)/.test(document.querySelector("tbody").innerText)`)
	d.ask("POST", "/v1/batches/"+made.ID+"/cancel", "")
	list.until("its end is listed", `/canceled[^]*2 of 2/.test(document.querySelector("tbody").innerText)`)
	one.until("its jobs are shown as they ended", `/done[^]*canceled/.test(document.querySelector("tbody").innerText)`)
}

func TestGroups(t *testing.T) {
	d := start(t, "")
	for _, group := range []string{"acme", "acme", "umbrella"} {
		d.submit("reports", "group="+group, "x")
	}
	b := newTab(t, d.url, desktop)
	b.open("#/pools/reports")
	b.shows("umbrella")
	b.press("Limits of acme")
	b.fill(`dialog input[name=concurrency]`, "1")
	b.fill(`dialog input[name=rate]`, "2.5")
	b.press("Set")
	b.shows("1 at a time · 2.5/s")
	if g := string(d.ask("GET", "/v1/pools/reports/groups", "")); !strings.Contains(g, `"concurrency":1,"rate":2.5`) {
		t.Errorf("the daemon says %s", g)
	}
	b.picture("groups")
	b.press("Reset the limits of acme")
	b.hides("1 at a time")
	b.press("acme")
	b.until("its jobs are listed", `document.querySelectorAll("tbody tr").length === 2`)
	b.until("the filter is shown", fmt.Sprintf(`[...document.querySelectorAll(".chip")].some((e) => e.innerText === %q)`, "group: acme ×"))
}
