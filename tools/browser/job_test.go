package browser

import (
	"fmt"
	"testing"
)

// A page that is left while it loads has no connection any more: with six of them a
// browser would have none for anything else.
func TestLeaveJobWhileItLoads(t *testing.T) {
	d := start(t, "")
	id := d.submit("reports", "", "x")
	b := newTab(t, d.url, desktop)
	b.open("")
	b.shows("Last hour")
	b.run(fmt.Sprintf(`(() => {
		window.streams = 0; window.loaded = 0;
		const ask = window.fetch;
		window.fetch = async (where, options) => {
			if (where.endsWith("/events")) { window.streams++; options.signal.addEventListener("abort", () => window.streams--); }
			const answer = await ask(where, options);
			if (where === "/v1/jobs/%[1]s") setTimeout(() => window.loaded++); // when the page has read it
			return answer;
		};
		const go = (place) => new Promise((done) => { addEventListener("hashchange", done, { once: true }); location.hash = place; });
		(async () => { for (let i = 0; i < 8; i++) { await go("#/jobs/%[1]s"); await go("#/schedules"); } })();
	})()`, id))
	b.until("all have loaded", `window.loaded === 8`)
	b.shows("There are no schedules.")
	if n := b.run(`window.streams`); n != "0" {
		t.Errorf("%s streams of pages that were left are open", n)
	}
	b.open("#/jobs/" + id)
	b.until("a page that stays has one", `window.streams === 1`)
	b.open("#/")
	b.until("until it is left", `window.streams === 0`)
}

// A job that could not be loaded is loaded again, with all that its page has.
func TestTryJobAgain(t *testing.T) {
	d := start(t, "")
	id := d.submit("mail", "task=talks", "of hope")
	b := newTab(t, d.url, desktop)
	b.open("")
	b.shows("Last hour")
	b.run(fmt.Sprintf(`(() => {
		const ask = window.fetch;
		window.fetch = (where, options) => {
			if (where !== "/v1/jobs/%[1]s") return ask(where, options);
			window.fetch = ask;
			return Promise.reject(new TypeError("no way"));
		};
		location.hash = "#/jobs/%[1]s";
	})()`, id))
	b.shows("Loading failed. The daemon cannot be reached.")
	b.press("Try again")
	b.shows("line 3 of hope")
	b.shows("Payload")
	b.hides("Loading failed.")
}
