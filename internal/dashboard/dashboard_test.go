package dashboard

import (
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

func pages(t *testing.T) *Pages {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func serve(t *testing.T, p *Pages, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.Entry)
	mux.HandleFunc("GET /ui/{version}/{file}", p.File)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

// text gives all files, by name.
func text(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(files, "ui", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, name)
		all[path.Base(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAllIsSmall(t *testing.T) {
	t.Parallel()
	const most = 100_000
	size := 0
	for _, body := range text(t) {
		size += len(body)
	}
	if size >= most {
		t.Errorf("the files have %d bytes together, want less than %d", size, most)
	}
}

func TestEntry(t *testing.T) {
	t.Parallel()
	p := pages(t)
	w := serve(t, p, "/")
	body := w.Body.String()
	if w.Code != http.StatusOK || strings.Contains(body, mark) || !strings.Contains(body, "ui/"+p.version+"/app.js") {
		t.Fatalf("%d %s", w.Code, body)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Content-Security-Policy": policy,
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	tag := w.Header().Get("ETag")
	for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		if again := serve(t, p, "/", "If-None-Match", known); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("who has %s gets %d with %d bytes", known, again.Code, again.Body.Len())
		}
	}
	if again := serve(t, p, "/", "If-None-Match", `"x"`); again.Code != http.StatusOK {
		t.Errorf("who has something else gets %d", again.Code)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	p := pages(t)
	for name, body := range text(t) {
		if name == entry {
			continue
		}
		w := serve(t, p, "/ui/"+p.version+"/"+name)
		if w.Code != http.StatusOK || w.Body.String() != body || w.Header().Get("Content-Type") != kinds[path.Ext(name)] || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
		if old := serve(t, p, "/ui/0123/"+name); old.Code != http.StatusOK || old.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s of another version: %d %v", name, old.Code, old.Header())
		}
	}
	for _, name := range []string{entry, "nothing.js", "..%2fdashboard.go", "%2e%2e"} {
		if w := serve(t, p, "/ui/"+p.version+"/"+name); w.Code == http.StatusOK {
			t.Errorf("%s is served: %.80s", name, w.Body)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for says, from := range map[string]fstest.MapFS{
		"no known type": {"ui/index.html": {}, "ui/page.exe": {}},
		"no index.html": {"ui/app.js": {}},
		"not exist":     {},
	} {
		if _, err := read(from); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", from, err, says)
		}
	}
}

// What a policy forbids does not stand in the files, so that it is not found out by
// a page that does not work.
func TestNothingTheBrowserRefuses(t *testing.T) {
	t.Parallel()
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\("style"|createContextualFragment|srcdoc|javascript:|localStorage|document\.cookie|EventSource`)
	outside := regexp.MustCompile(`(?i)["'(=]\s*(https?:)?//[a-z]`)
	for name, body := range text(t) {
		for n, line := range strings.Split(body, "\n") {
			code, _, _ := strings.Cut(line, "// ")
			if found := bad.FindString(code); found != "" && path.Ext(name) != ".css" && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				if !strings.Contains(line, "(EventSource cannot") && !strings.Contains(line, "EventSource cannot") {
					t.Errorf("%s:%d has %s", name, n+1, found)
				}
			}
			if outside.MatchString(strings.ReplaceAll(code, `"http://www.w3.org/2000/svg"`, "")) {
				t.Errorf("%s:%d leads outside: %s", name, n+1, line)
			}
		}
	}
	html := text(t)[entry]
	for _, part := range []string{"<style", " style=", " onclick", "<script>"} {
		if strings.Contains(html, part) {
			t.Errorf("the entry has %s", part)
		}
	}
}

// contrasts are the pairs of colors that text is shown in, and what WCAG asks of
// them: 4.5 for text, 3 for what only shows where something is.
var contrasts = []struct {
	front, back string
	least       float64
}{
	{"text", "page", 4.5},
	{"text", "paper", 4.5},
	{"text", "raised", 4.5},
	{"text", "accent-soft", 4.5},
	{"quiet", "page", 4.5},
	{"quiet", "paper", 4.5},
	{"quiet", "raised", 4.5},
	{"accent", "page", 4.5},
	{"accent", "paper", 4.5},
	{"accent", "raised", 4.5},
	{"accent", "accent-soft", 4.5},
	{"paper", "accent", 4.5},
	{"ok", "paper", 4.5},
	{"ok", "ok-soft", 4.5},
	{"warn", "paper", 4.5},
	{"warn", "warn-soft", 4.5},
	{"bad", "page", 4.5},
	{"bad", "paper", 4.5},
	{"bad", "bad-soft", 4.5},
	{"text", "bad-soft", 4.5},
	{"quiet", "bad-soft", 4.5},
	{"accent", "bad-soft", 4.5},
	{"paper", "bad", 4.5},
	{"edge", "paper", 3},
	{"edge", "page", 3},
	{"series-b", "paper", 3},
}

func TestContrast(t *testing.T) {
	t.Parallel()
	light, dark, found := strings.Cut(text(t)["style.css"], "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("there are no dark colors")
	}
	for scheme, css := range map[string]string{"light": light, "dark": dark} {
		block, _, _ := strings.Cut(css, "}")
		colors := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(block, -1) {
			colors[m[1]] = m[2]
		}
		for _, c := range contrasts {
			if got := contrast(t, colors[c.front], colors[c.back]); got < c.least {
				t.Errorf("%s: %s (%s) on %s (%s) has the contrast %.2f, want %v", scheme, c.front, colors[c.front], c.back, colors[c.back], got, c.least)
			}
		}
	}
}

// contrast is that of WCAG 2.2 between two colors.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	if len(color) != 7 {
		t.Fatalf("%q is no color", color)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
