package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long anything on a page may take on a busy machine.
const patience = 30 * time.Second

// chromium is the browser of all tests.
var chromium context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	options := []chromedp.ExecAllocatorOption{chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless}
	for _, flag := range []string{
		"no-sandbox", "disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync",
		"disable-default-apps", "disable-extensions", "hide-scrollbars", "mute-audio", "disable-dev-shm-usage",
		"disable-background-timer-throttling", "disable-renderer-backgrounding", "disable-backgrounding-occluded-windows",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	if path := os.Getenv("CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var quit context.CancelFunc
	chromium, quit = chromedp.NewContext(allocator, chromedp.WithErrorf(func(format string, a ...any) {
		if !strings.Contains(format, "unhandled") { // the browser is younger than what it is spoken to with
			fmt.Fprintf(os.Stderr, "chromedp: "+format+"\n", a...)
		}
	}))
	defer quit()
	if err := chromedp.Run(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "the browser does not start:", err)
		return 1
	}
	return m.Run()
}

// tab is a tab of its own, which shares nothing with those of other tests.
type tab struct {
	t    *testing.T
	ctx  context.Context
	home string // the daemon's address

	profile cdp.BrowserContextID

	mu     sync.Mutex
	faults []string // of the page; guarded by mu
	asked  []string // addresses; guarded by mu
	allow  []string // what faults may have in them; guarded by mu
}

// view is how large the page is, and whether it is dark.
type view struct {
	width, height int64
	dark          bool
}

var desktop, phone = view{1280, 800, false}, view{375, 812, false}

func newTab(t *testing.T, home string, v view) *tab {
	t.Helper()
	id, profile := newTarget(t)
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithTargetID(id))
	b := &tab{t: t, ctx: ctx, home: home, profile: profile}
	t.Cleanup(func() {
		b.wantNoFaults()
		if t.Failed() {
			b.picture("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		cancel()
	})
	chromedp.ListenTarget(ctx, b.hear)
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as the context that it is first used with
		t.Fatalf("no tab: %v", err)
	}
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	b.do(
		network.Enable(), log.Enable(), runtime.Enable(),
		emulation.SetDeviceMetricsOverride(v.width, v.height, 1, v.width < 500),
		emulation.SetTouchEmulationEnabled(v.width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(
				`document.addEventListener("securitypolicyviolation", (e) => console.error("policy violated: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample))`).Do(ctx)
			return err
		}),
	)
	return b
}

// newTarget makes a tab with a profile of its own. A browser without windows opens
// none unless it is configured.
func newTarget(t *testing.T) (id target.ID, profile cdp.BrowserContextID) {
	t.Helper()
	err := chromedp.Run(chromium, chromedp.ActionFunc(func(ctx context.Context) error {
		ctx = cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser)
		var err error
		if profile, err = target.CreateBrowserContext().WithDisposeOnDetach(true).Do(ctx); err != nil {
			return err
		}
		id, err = target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(ctx)
		return err
	}))
	if err != nil {
		t.Fatalf("no tab: %v", err)
	}
	return id, profile
}

// hear notes what goes wrong on the page, and what it asks for.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.APITypeError && e.Type != runtime.APITypeWarning && e.Type != runtime.APITypeAssert {
			return
		}
		var words []string
		for _, a := range e.Args {
			words = append(words, string(a.Value)+a.Description)
		}
		b.faults = append(b.faults, fmt.Sprintf("console %s: %s", e.Type, strings.Join(words, " ")))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			b.faults = append(b.faults, fmt.Sprintf("log %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

// may lets faults pass that have these words in them: those that the test brings
// about.
func (b *tab) may(words ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allow = append(b.allow, words...)
}

// wantNoFaults holds what was heard against what a page may do.
func (b *tab) wantNoFaults() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		if !slices.ContainsFunc(b.allow, func(word string) bool { return strings.Contains(f, word) }) {
			b.t.Errorf("the page: %s", f)
		}
	}
	home, err := url.Parse(b.home)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range b.asked {
		u, err := url.Parse(a)
		if err != nil || u.Scheme != "blob" && u.Scheme != "data" && u.Scheme != "about" && u.Host != home.Host {
			b.t.Errorf("the page asked for %s, which is not its daemon's", a)
		}
		if strings.Contains(a, token("")) {
			b.t.Errorf("a token stands in the address %s", a)
		}
	}
}

// do acts on the page, within patience.
func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("on the page: %v", err)
	}
}

// open goes to a page of the dashboard.
func (b *tab) open(place string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.home + "/" + place))
}

// run evaluates a script and returns what it gives as text.
func (b *tab) run(script string) string {
	b.t.Helper()
	var text string
	b.do(chromedp.Evaluate("String("+script+")", &text))
	return text
}

// text is what the page shows.
func (b *tab) text() string {
	b.t.Helper()
	return b.run(`document.body?.innerText`)
}

// until waits until a script gives true.
func (b *tab) until(what, script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := chromedp.Run(ctx, chromedp.Poll(script, nil, chromedp.WithPollingInterval(30*time.Millisecond), chromedp.WithPollingTimeout(patience)))
	if err != nil {
		b.t.Fatalf("not in time: %s (%v)\nthe page shows: %.1500s", what, err, strings.Join(strings.Fields(b.text()), " "))
	}
}

// shows waits until the page shows a text.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("the page shows %q", text), fmt.Sprintf(`document.body?.innerText.includes(%q)`, text))
}

// hides waits until it does not.
func (b *tab) hides(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("the page shows no %q", text), fmt.Sprintf(`!document.body?.innerText.includes(%q)`, text))
}

// press clicks what can be pressed and has this name: its label, or else its text.
// An open dialog goes first, as it does for people.
func (b *tab) press(name string) {
	b.t.Helper()
	find := fmt.Sprintf(`(() => { const within = document.querySelector("dialog[open]") || document; return [...within.querySelectorAll("button, a, summary")].find((e) => (e.getAttribute("aria-label") || e.innerText).trim() === %q && !e.disabled); })()`, name)
	b.until(fmt.Sprintf("%q can be pressed", name), find+" !== undefined")
	b.run(find + `.click()`)
}

// key types keys as a person does; those of kb are special ones.
func (b *tab) key(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		if len(k) > 1 || k < " " {
			b.do(chromedp.KeyEvent(k))
			continue
		}
		// At once what the key does and what it types, so that a page which does not want
		// the one gets not the other.
		b.do(input.DispatchKeyEvent(input.KeyDown).WithKey(k).WithText(k), input.DispatchKeyEvent(input.KeyUp).WithKey(k))
	}
}

// tabTo presses the Tab key until what is focused has this name.
func (b *tab) tabTo(name string) {
	b.t.Helper()
	const most = 80
	var seen []string
	for range most {
		b.key(kb.Tab)
		now := b.run(`(document.activeElement.getAttribute("aria-label") || document.activeElement.innerText || document.activeElement.name || document.activeElement.tagName).trim().split("\n")[0]`)
		if now == name {
			if outline := b.run(`getComputedStyle(document.activeElement).outlineStyle`); outline == "none" {
				b.t.Errorf("what has the focus, %q, does not show it", name)
			}
			return
		}
		seen = append(seen, now)
	}
	b.t.Fatalf("no %d presses of Tab lead to %q: %q", most, name, seen)
}

// fill types into the field that a selector finds.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(selector, chromedp.ByQuery), chromedp.Focus(selector, chromedp.ByQuery), chromedp.Evaluate(fmt.Sprintf(`document.querySelector(%q).select?.()`, selector), nil), input.InsertText(text))
}

// picture saves what the page looks like, where a folder is named for it.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	var image []byte
	if err := chromedp.Run(ctx, chromedp.FullScreenshot(&image, 100)); err != nil {
		b.t.Logf("no picture: %v", err)
		return
	}
	if err := os.WriteFile(folder+"/"+name+".png", image, 0o644); err != nil {
		b.t.Error(err)
	}
}

// downloads lets files be saved to a folder.
func (b *tab) downloads(folder string) {
	b.t.Helper()
	b.do(browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(folder).WithBrowserContextID(b.profile))
}
