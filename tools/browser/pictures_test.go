package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

var views = map[string]view{"desktop": desktop, "phone": phone, "desktop-dark": {1280, 800, true}, "phone-dark": {375, 812, true}}

// TestPictures looks at all pages, large and small, light and dark: nothing is cut
// off at the side. PICTURES names a folder for what they look like.
func TestPictures(t *testing.T) {
	d := start(t, "")
	dead := d.submit("thumbnails", "task=fails", "no such file: /data/2026/picture-with-a-rather-long-name-0001.jpeg")
	d.submit("mail", "task=exits", "x")
	d.submit("reports", "task=nightly&delay=1h", `{"kind":"daily"}`)
	for n := range 8 {
		d.submit("thumbnails", "task=upper", fmt.Sprint("picture ", n))
		d.submit("reports", "task=nightly", `{"kind":"daily"}`)
	}
	talks := d.submit("mail", "task=talks", "hello")
	d.becomes(dead, "dead")
	pages := map[string]string{
		"overview": "#/", "jobs": "#/jobs", "dead": "#/dead?by=job", "workers": "#/workers", "pool": "#/pools/thumbnails",
		"job-dead": "#/jobs/" + dead, "job-running": "#/jobs/" + talks,
	}
	home := d.url
	if other := os.Getenv("LOOK"); other != "" { // another daemon, for people at work on this
		home, pages = other, map[string]string{"overview": "#/", "jobs": "#/jobs", "dead": "#/dead", "workers": "#/workers", "pool": "#/pools/thumbnails", "schedules": "#/schedules", "batches": "#/batches"}
		for n, page := range strings.Fields(os.Getenv("PAGES")) {
			pages[fmt.Sprint("page-", n)] = page
		}
	}
	for name, v := range views {
		b := newTab(t, home, v)
		for what, page := range pages {
			b.open(page)
			b.until(what+" is loaded", `document.querySelector("main h1") && !document.querySelector(".loading") && (location.hash !== "#/" || document.querySelector(".spark"))`)
			if wide := b.run(`document.documentElement.scrollWidth - innerWidth`); wide != "0" && wide[0] != '-' {
				t.Errorf("%s, %s: the page is %s pixels too wide: %s", what, name, wide, b.run(`[...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, nav, svg")).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(" | ")`))
			}
			b.picture(what + "-" + name)
		}
	}
}
