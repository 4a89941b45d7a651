package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stage is a part of a Dockerfile that begins with FROM.
type stage struct {
	name, from string
	lines      []string
}

// stages splits a Dockerfile, with continued lines joined.
func stages(t *testing.T) (arguments []string, all []*stage) {
	t.Helper()
	text := strings.ReplaceAll(read(t, "deploy/Dockerfile"), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case words[0] == "FROM":
			words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") })
			if len(words) != 3 || words[1] != "AS" {
				t.Fatalf("%q has no name", line)
			}
			all = append(all, &stage{name: words[2], from: words[0]})
		case len(all) == 0:
			arguments = append(arguments, line)
		default:
			all[len(all)-1].lines = append(all[len(all)-1].lines, line)
		}
	}
	return arguments, all
}

// TestTheImage wants what is copied to be there, images that run as nobody in
// particular, and no secret in a layer.
func TestTheImage(t *testing.T) {
	t.Parallel()
	arguments, all := stages(t)
	var names []string
	for _, s := range all {
		names = append(names, s.name)
		for _, line := range s.lines {
			words := strings.Fields(line)
			if words[0] == "COPY" {
				checkCopy(t, names, words[1:])
			}
		}
	}
	if !slices.Equal(names, []string{"build", "python", "daemon"}) {
		t.Errorf("the stages are %v; the last one is what a plain build makes", names)
	}
	for _, s := range all[1:] {
		for _, want := range []string{"USER 65532:65532", "STOPSIGNAL SIGTERM", "VOLUME /var/lib/bullpen", `ENTRYPOINT ["/usr/bin/bullpen"]`, `CMD ["serve"]`} {
			if !slices.Contains(s.lines, want) {
				t.Errorf("%s has no line %q", s.name, want)
			}
		}
		if !slices.ContainsFunc(s.lines, func(l string) bool { return strings.HasPrefix(l, "HEALTHCHECK ") }) {
			t.Errorf("%s has no health check", s.name)
		}
	}
	if all[2].from != "scratch" {
		t.Errorf("the daemon is made from %s", all[2].from)
	}
	secret := regexp.MustCompile(`(?i)^(ARG|ENV) .*(token|password|secret|key)`)
	for _, line := range slices.Concat(arguments, all[0].lines, all[1].lines, all[2].lines) {
		if secret.MatchString(line) {
			t.Errorf("%q puts a secret into a layer", line)
		}
	}
}

// checkCopy looks whether the sources of a COPY are in the checkout, or of a stage
// before.
func checkCopy(t *testing.T, before, words []string) {
	t.Helper()
	from := ""
	for strings.HasPrefix(words[0], "--") {
		from, _ = strings.CutPrefix(words[0], "--from=")
		words = words[1:]
	}
	if from != "" {
		if !slices.Contains(before[:len(before)-1], from) {
			t.Errorf("COPY from %q, which is no stage before", from)
		}
		return
	}
	for _, path := range words[:len(words)-1] {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path))); err != nil {
			t.Errorf("COPY of %q: %v", path, err)
		}
		for pattern := range strings.Lines(read(t, "deploy/Dockerfile.dockerignore")) {
			if pattern = strings.TrimSpace(pattern); pattern == path || pattern == strings.Split(path, "/")[0] {
				t.Errorf("%q is kept from the build by .dockerignore", path)
			}
		}
	}
}
