package deploytest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// composeFile has the keys that deploy/compose.yaml uses, as the Compose
// Specification has them.
type composeFile struct {
	Name     string             `yaml:"name"`
	Hardened yaml.Node          `yaml:"x-hardened"`
	Services map[string]service `yaml:"services"`
	Volumes  map[string]struct{}
	Networks map[string]struct{ Internal bool }
}

type service struct {
	Profiles        []string
	Image           string
	Build           *struct{ Context, Dockerfile, Target string }
	Entrypoint      []string
	Command         []string
	User            string
	Init            bool
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	CapAdd          []string `yaml:"cap_add"`
	SecurityOpt     []string `yaml:"security_opt"`
	Restart         string
	NetworkMode     string `yaml:"network_mode"`
	Healthcheck     *struct{ Disable bool }
	Environment     map[string]string
	StopGracePeriod string `yaml:"stop_grace_period"`
	Tmpfs           []string
	Volumes         []string
	Ports           []string
	Networks        []string
	DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
	Logging         struct {
		Driver  string
		Options map[string]string
	}
	Deploy struct {
		Resources struct {
			Limits struct {
				Memory string
				Pids   int
			}
		}
	}
}

func composed(t *testing.T) *composeFile {
	t.Helper()
	var c composeFile
	strict(t, "deploy/compose.yaml", &c)
	return &c
}

// TestCompose wants all that services name to be there, and every service shut in.
func TestCompose(t *testing.T) {
	t.Parallel()
	c := composed(t)
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not read-only, without capabilities and without new privileges", name)
		}
		if s.Image == "" || strings.HasSuffix(s.Image, ":latest") || s.Build == nil && !strings.Contains(s.Image, ":") {
			t.Errorf("%s has the image %q: want one with a version", name, s.Image)
		}
		for on, d := range s.DependsOn {
			if _, ok := c.Services[on]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, on)
			}
			if !slices.Contains([]string{"service_started", "service_healthy", "service_completed_successfully"}, d.Condition) {
				t.Errorf("%s waits for %q", name, d.Condition)
			}
		}
		for _, n := range s.Networks {
			if _, ok := c.Networks[n]; !ok {
				t.Errorf("%s is in the network %s, which is not there", name, n)
			}
		}
		checkMounts(t, c, name, s.Volumes)
	}
	// What publishes a port needs a network that leads outside, and only the API
	// may be reached from other machines.
	for name, s := range c.Services {
		for _, p := range s.Ports {
			if name != "bullpen" && !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s is reached from other machines at %s", name, p)
			}
			if !slices.ContainsFunc(s.Networks, func(n string) bool { return !c.Networks[n].Internal }) {
				t.Errorf("%s publishes %s and is in internal networks only", name, p)
			}
		}
	}
	if slices.ContainsFunc(c.Services["nats"].Networks, func(n string) bool { return !c.Networks[n].Internal }) {
		t.Error("the NATS server is reached from outside")
	}
	if !strings.Contains(read(t, "deploy/compose/nats.conf"), "sync_interval: always") {
		t.Error("the NATS server does not sync each write")
	}
}

// checkMounts wants volumes to be declared, files to be there, and files to be
// mounted for reading only.
func checkMounts(t *testing.T, c *composeFile, name string, mounts []string) {
	t.Helper()
	for _, m := range mounts {
		from, to, _ := strings.Cut(m, ":")
		if !strings.HasPrefix(from, ".") {
			if _, ok := c.Volumes[from]; !ok {
				t.Errorf("%s has the volume %s, which is not there", name, from)
			}
			continue
		}
		if info, err := os.Stat(filepath.Join(root, "deploy", filepath.FromSlash(from))); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s has the file %s, which is not there", name, from)
		}
		if !strings.HasSuffix(to, ":ro") {
			t.Errorf("%s may write to %s", name, from)
		}
	}
}

// TestPrometheusFiles holds them against the keys that Prometheus has.
func TestPrometheusFiles(t *testing.T) {
	t.Parallel()
	var config struct {
		Global struct {
			ScrapeInterval     string `yaml:"scrape_interval"`
			EvaluationInterval string `yaml:"evaluation_interval"`
		}
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	strict(t, "deploy/compose/prometheus.yaml", &config)
	if len(config.ScrapeConfigs) != 1 || len(config.ScrapeConfigs[0].StaticConfigs) != 1 ||
		!slices.Equal(config.ScrapeConfigs[0].StaticConfigs[0].Targets, []string{"bullpen:8651"}) {
		t.Errorf("Prometheus scrapes %+v, want the probes of bullpen", config.ScrapeConfigs)
	}
	if !strings.Contains(read(t, "deploy/compose/bullpen.yaml"), "0.0.0.0:8651") {
		t.Error("the probes of bullpen are elsewhere")
	}
	mounts := composed(t).Services["prometheus"].Volumes
	for _, file := range config.RuleFiles {
		if !slices.ContainsFunc(mounts, func(m string) bool { return strings.HasSuffix(m, ":"+file+":ro") }) {
			t.Errorf("the rules %s are not mounted", file)
		}
	}

	seen := map[string]bool{}
	for _, r := range readRules(t) {
		if r.Alert == "" || r.Expr == "" || seen[r.Alert] || !slices.Contains([]string{"page", "ticket"}, r.Labels["severity"]) ||
			r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%q is not a whole alert with a name of its own", r.Alert)
		}
		seen[r.Alert] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d alerts", len(seen))
	}
}

// rule is one alert.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	strict(t, "deploy/grafana/alerts.yaml", &rules)
	for _, g := range rules.Groups {
		all = append(all, g.Rules...)
	}
	return all
}
