package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestPythonVersion(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]string{
		"v1.2.3":         "1.2.3",
		"v1.2.3-rc.1":    "1.2.3rc1",
		"v1.2.3-beta2":   "1.2.3b2",
		"v0.1.0-alpha.7": "0.1.0a7",
		// Commits without a tag: before all versions, after v1.2.3, after v1.3.0-rc.1.
		"v0.0.0-20261122230700-627ed70f0af1":           "0.0.0.dev20261122230700+g627ed70f0af1",
		"v1.2.4-0.20261122230700-627ed70f0af1":         "1.2.4.dev20261122230700+g627ed70f0af1",
		"v1.3.0-rc.1.0.20261122230700-627ed70f0af1":    "1.3.0rc1.post0.dev20261122230700+g627ed70f0af1",
		"v1.3.0-nightly":                               "",
		"v1.3.0-nightly.0.20261122230700-627ed70f0af1": "",
	} {
		got, err := pythonVersion(v)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("pythonVersion(%s) = %q, %v, want %q", v, got, err, want)
		}
	}
}

// TestImage wants the image to run as that of deploy/Dockerfile does.
func TestImage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, found := strings.Cut(string(text), "FROM scratch AS daemon\n")
	if !found {
		t.Fatal("deploy/Dockerfile has no stage daemon")
	}
	quoted := func(words []string) string { return `["` + strings.Join(words, `", "`) + `"]` }
	c := imageConfig
	want := []string{
		"COPY --from=build /root-of-image/ /",
		"ENV " + strings.Join(c.Env, " "),
		"WORKDIR " + c.WorkingDir,
		"USER " + c.User,
		fmt.Sprintf("HEALTHCHECK --interval=%v --timeout=%v --start-period=%v %s %s", c.Healthcheck.Interval, c.Healthcheck.Timeout, c.Healthcheck.StartPeriod, c.Healthcheck.Test[0], quoted(c.Healthcheck.Test[1:])),
		"STOPSIGNAL " + c.StopSignal,
		"ENTRYPOINT " + quoted(c.Entrypoint),
		"CMD " + quoted(c.Cmd),
	}
	for path := range c.Volumes {
		want = append(want, "VOLUME "+path)
	}
	for port := range c.ExposedPorts {
		want = append(want, "EXPOSE "+strings.TrimSuffix(port, "/tcp"))
	}
	got := strings.Split(strings.TrimSpace(stage), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the stage daemon of deploy/Dockerfile has\n%s\nand the image\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
