package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestLoads(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.open("")
	b.shows("Last hour")
	for _, text := range []string{"mail", "thumbnails", "reports", "queue-only", "Waiting", "host-a", "Oldest job", "Run time"} {
		b.shows(text)
	}
	b.until("the title tells the page", `document.title === "Overview · Bullpen"`)
	for place, heading := range map[string]string{"#/jobs": "Jobs", "#/dead?by=job": "Dead jobs", "#/workers": "Workers", "#/nowhere": "This page does not exist", "#/pools/mail": "Pools / mail open"} {
		b.open(place)
		b.until(place+" has its heading", fmt.Sprintf(`document.querySelector("main h1")?.innerText.replace(/\s+/g, " ") === %q`, heading))
	}
	b.may("/v1/pools/nobody", "/v1/workers?pool=nobody", "/v1/history?pool=nobody", "/v1/jobs/nobody")
	b.open("#/pools/nobody")
	b.shows("This pool does not exist.")
	b.open("#/jobs/nobody")
	b.shows("This job does not exist")
}

// What changes is shown without loading the page again.
func TestLiveUpdate(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.open("")
	b.shows("nothing waits")
	b.run(`window.stays = true`)
	for range 3 {
		d.submit("reports", "", "x")
	}
	b.until("three jobs are shown to wait", `[...document.querySelectorAll(".tile")].some((t) => t.innerText.startsWith("Waiting\n3"))`)
	b.open("#/jobs?pool=reports")
	b.until("three jobs are listed", `document.querySelectorAll("tbody tr").length === 3`)
	d.submit("reports", "task=late", "x")
	b.until("the fourth is listed too", `document.querySelectorAll("tbody tr").length === 4`)
	if b.run(`window.stays`) != "true" {
		t.Error("the page was loaded again")
	}
}

func TestRetryDeadJob(t *testing.T) {
	d := start(t, "")
	file := filepath.Join(t.TempDir(), "mended")
	id := d.submit("mail", "task=mends", file)
	d.becomes(id, "dead")
	b := newTab(t, d.url, desktop)
	b.may("/payload") // that of the new job may be gone when it is asked for
	b.open("#/dead?by=job")
	b.shows("nobody has mended it yet")
	b.open("#/jobs/" + id)
	b.shows("Attempt 1")
	b.shows("nobody has mended it yet")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.press("Retry")
	b.until("the new job is shown", fmt.Sprintf(`location.hash !== "#/jobs/%s"`, id))
	b.shows("Parent")
	b.until("it is done", `document.querySelector("h1 .badge").innerText === "done"`)
	b.until("its result is shown", `[...document.querySelectorAll("pre.content")].some((p) => p.innerText === "mended")`)
}

func TestPausePool(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.open("#/pools/mail")
	b.press("Pause")
	b.shows("No node starts jobs")
	b.press("Cancel")
	b.hides("No node starts jobs")
	b.press("Pause")
	b.shows("No node starts jobs")
	b.press("Pause") // that of the dialog
	b.until("the pool is paused", `document.querySelector("h1 .badge").innerText === "paused"`)
	id := d.submit("mail", "task=upper", "x")
	if p := string(d.ask("GET", "/v1/pools/mail", "")); !strings.Contains(p, `"paused":true`) {
		t.Errorf("the daemon says %s", p)
	}
	b.press("Resume")
	b.until("the pool is open", `document.querySelector("h1 .badge").innerText === "open"`)
	d.becomes(id, "done")
}

func TestScalePool(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.open("#/pools/mail")
	b.press("Scale")
	b.fill(`dialog input[name=max]`, "3")
	b.press("Scale")
	b.shows("mail was scaled")
	b.shows("1 to 3")
	b.hides("mail was scaled") // it goes by itself
	b.press("Scale")
	b.fill(`dialog input[name=min]`, "9")
	b.may("/v1/pools/mail/scale")
	b.press("Scale")
	b.shows("min is larger than max") // what the daemon says of it
	b.press("Dismiss")
	b.hides("min is larger than max")
}

func TestRecycleWorker(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.open("#/workers?pool=mail")
	b.shows("mail-1")
	b.press("Replace mail-1")
	b.press("Replace")
	b.shows("mail-1 is being replaced")
	b.until("another worker is there", `/mail-2/.test(document.querySelector("table").innerText) && !/mail-1/.test(document.querySelector("table").innerText)`)
}

// A running job is followed line by line, and canceled.
func TestFollowJob(t *testing.T) {
	d := start(t, "")
	id := d.submit("mail", "task=talks", "of hope")
	b := newTab(t, d.url, desktop)
	b.open("#/jobs/" + id)
	b.shows("line 3 of hope")
	b.until("its progress moves", `document.querySelector("progress")?.value > 0.05`)
	b.until("it says so in words", `/step \d+/.test(document.querySelector("main").innerText)`)
	b.until("lines go on", `document.querySelectorAll(".log .row").length > 8`)
	if n := b.run(`(() => { const all = [...document.querySelectorAll(".log .row span")].map((e) => e.innerText); return all.length - new Set(all).size; })()`); n != "0" {
		t.Errorf("%s lines are shown twice", n)
	}
	b.press("Cancel")
	b.shows("The job is asked to end")
	b.press("Cancel job")
	b.until("it is canceled", `document.querySelector("h1 .badge").innerText === "canceled"`)
	d.becomes(id, "canceled")
	b.until("it cannot be canceled twice", `![...document.querySelectorAll("button")].some((e) => e.innerText === "Cancel")`)
}

func TestPayloadsAreShown(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	for _, c := range []struct{ payload, as, says string }{
		{`{"b":[1,2],"a":"ü"}`, "JSON", `"a": "ü"`},
		{"plain\ntext", "text", "plain\ntext"},
		{"\x00\x01\xfe", "hex", "00 01 fe"},
		{strings.Repeat("long ", 20000), "text", "showing the first 64 KiB"},
	} {
		id := d.submit("reports", "", c.payload)
		b.open("#/jobs/" + id)
		b.shows(c.says)
		if as := b.run(`document.querySelector("section .chip[aria-pressed=true]").innerText`); as != c.as {
			t.Errorf("%.20q is shown as %s", c.payload, as)
		}
	}
	folder := t.TempDir()
	b.downloads(folder)
	b.press("Download")
	deadline := time.After(patience)
	for {
		if text, err := os.ReadFile(filepath.Join(folder, "payload.bin")); err == nil && len(text) == 100000 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal("the payload is not downloaded in time")
		}
	}
}

// Nothing that comes from jobs is read as HTML.
func TestUntrustedText(t *testing.T) {
	d := start(t, "")
	const evil = `<img src=x onerror="window.owned=1"><script>window.owned=1</script>`
	const escaped = `%3Cimg%20src%3Dx%20onerror%3D%22window.owned%3D1%22%3E%3Cscript%3Ewindow.owned%3D1%3C%2Fscript%3E`
	dead := d.submit("thumbnails", "task=fails&key="+escaped, evil)
	named := d.submit("reports", "task="+escaped, evil)
	talks := d.submit("mail", "task=talks", evil)
	d.becomes(dead, "dead")
	b := newTab(t, d.url, desktop)
	for _, c := range []struct{ place, in string }{
		{"#/jobs?pool=reports", "tbody"}, {"#/dead?by=job", "tbody"}, {"#/jobs/" + dead, "main"}, {"#/jobs/" + named, "h1"}, {"#/jobs/" + named, "pre.content"}, {"#/jobs/" + talks, ".log"},
	} {
		b.open(c.place)
		b.until(c.place+" shows it as text", fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))`, c.in, evil))
	}
	b.open("#/jobs?search=" + escaped)
	b.until("the search box has it", fmt.Sprintf(`document.querySelector("input.search")?.value === %q`, evil))
	b.open("#/pools/" + escaped)
	b.may("/v1/pools/", "/v1/workers?pool=", "/v1/history?pool=", "/v1/jobs?")
	b.until("the heading has it", fmt.Sprintf(`document.querySelector("h1")?.innerText.includes(%q)`, evil))
	if b.run(`window.owned`) != "undefined" || b.run(`document.querySelectorAll("main img, main script").length`) != "0" {
		t.Error("text of a job was read as HTML")
	}
	if got := b.run(`(() => { try { document.body.innerHTML = "<b>x</b>"; return "taken"; } catch { return "refused"; } })()`); got != "refused" {
		t.Errorf("the page's policy lets text be read as HTML: %s", got)
	}
	b.may("This document requires 'TrustedHTML'", "policy violated: require-trusted-types-for")
}

func TestConnectionLost(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.may("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "503")
	b.open("")
	b.shows("thumbnails")
	b.run(`window.stays = true`)
	d.end()
	b.shows("The connection to the daemon is lost")
	b.shows("thumbnails") // what was known stays
	d.begin()
	b.hides("The connection to the daemon is lost")
	d.submit("reports", "", "x")
	b.until("it goes on", `[...document.querySelectorAll(".tile")].some((t) => t.innerText.startsWith("Waiting\n1"))`)
	if b.run(`window.stays`) != "true" {
		t.Error("the page was loaded again")
	}
}

func TestTokens(t *testing.T) {
	d := startProtected(t)
	b := newTab(t, d.url, desktop)
	b.may("401")
	b.open("#/pools/mail")
	b.shows("This daemon requires a token")
	b.until("the field has the focus", `document.activeElement.name === "token"`)
	b.fill("input[name=token]", "no-such-token-0123456789")
	b.key(kb.Enter)
	b.shows("no valid token")
	b.fill("input[name=token]", token("read"))
	b.key(kb.Enter)
	b.shows("read-only")
	b.shows("Last hour")
	for _, name := range []string{"Pause", "Scale", "Replace workers", "Replace mail-1"} {
		says := fmt.Sprintf(`[...document.querySelectorAll("button")].find((e) => (e.getAttribute("aria-label") || e.innerText) === %q)`, name)
		b.until(name+" is there", says+" !== undefined")
		if got := b.run(says + ".disabled + ' ' + " + says + ".title"); got != "true This needs the role admin; your token has the role read." {
			t.Errorf("%s is %s", name, got)
		}
	}
	if kept := b.run(`localStorage.length + " " + document.cookie + " " + (sessionStorage.getItem("bullpen-token") !== null)`); kept != "0  true" {
		t.Errorf("the token is kept in: %s", kept)
	}
	b.do(chromedp.Reload())
	b.shows("read-only") // it is kept in this tab
	other := newTab(t, d.url, desktop)
	other.may("401")
	other.open("")
	other.shows("This daemon requires a token") // and in no other
	b.press("Log out")
	b.shows("This daemon requires a token")
	b.fill("input[name=token]", token("admin"))
	b.key(kb.Enter)
	b.press("Pause")
	b.shows("No node starts jobs")
	b.press("Pause")
	b.until("the pool is paused", `document.querySelector("h1 .badge").innerText === "paused"`)
	b.hides("read-only")
}

// A token that ends while the page is open leads back to the question for one.
func TestTokenEnds(t *testing.T) {
	d := startProtected(t)
	b := newTab(t, d.url, phone)
	b.may("401")
	b.open("")
	b.shows("This daemon requires a token")
	b.fill("input[name=token]", token("submit"))
	b.key(kb.Enter)
	b.shows("thumbnails")
	b.shows("submit")
	if got := b.run(`sessionStorage.setItem("bullpen-token", "no-such-token-0123456789") === undefined`); got != "true" {
		t.Fatal(got)
	}
	b.do(chromedp.Reload())
	b.shows("no valid token")
}

// A whole action without a pointer.
func TestKeyboardOnly(t *testing.T) {
	d := start(t, "")
	b := newTab(t, d.url, desktop)
	b.open("")
	b.shows("Last hour")
	b.tabTo("Skip to the content")
	b.key(kb.Enter)
	b.until("the content has the focus", `document.activeElement.id === "main"`)
	b.tabTo("mail")
	b.key(kb.Enter)
	b.shows("Replace workers")
	b.tabTo("Pause")
	b.key(kb.Enter)
	b.shows("No node starts jobs")
	for range 6 { // the focus stays in the dialog
		b.key(kb.Tab)
		if b.run(`document.activeElement === document.body || document.activeElement.closest("dialog") !== null`) != "true" {
			t.Fatalf("the focus has left the dialog for %s", b.run(`document.activeElement.outerHTML`))
		}
	}
	b.key(kb.Escape)
	b.hides("No node starts jobs")
	b.until("the focus is back", `document.activeElement.innerText === "Pause"`)
	b.key(kb.Enter)
	b.shows("No node starts jobs")
	b.tabTo("Pause")
	b.key(kb.Enter)
	b.until("the pool is paused", `document.querySelector("h1 .badge").innerText === "paused"`)
	b.tabTo("Resume")
	b.key(kb.Enter)
	b.until("the pool is open", `document.querySelector("h1 .badge").innerText === "open"`)

	b.key("g", "j")
	b.until("g j leads to the jobs", `document.querySelector("h1").innerText === "Jobs"`)
	b.key("/")
	b.until("/ leads to the search", `document.activeElement.className === "search"`)
	b.key("g", "j") // which is typed now
	b.until("what is typed is typed", `document.activeElement.value === "gj"`)
	b.key(kb.Escape, "?")
	b.shows("Keyboard shortcuts")
	b.key(kb.Escape)
	b.hides("Keyboard shortcuts")
	b.key("g", "o")
	b.shows("Last hour")
	b.until("the charts are there", `document.querySelector(".plot") !== null`)
	b.run(`document.querySelector(".plot").focus()`)
	b.key(kb.ArrowLeft, kb.ArrowLeft)
	b.until("a chart tells a time", `document.querySelectorAll(".chart figcaption .quiet").length === 6`)
	b.key(kb.Escape)
	b.until("and no more", `document.querySelectorAll(".chart figcaption .quiet").length === 0`)
}

// The page is served with what browsers are to hold it to, and can be switched off.
func TestHeaders(t *testing.T) {
	d := start(t, "")
	r, err := http.Get(d.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
		if got := r.Header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s is %q", name, got)
		}
	}
}
