//go:build unix

package deploytest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/bullpen-run/bullpen/internal/natstest"
)

// reads has nats-server read a configuration, and do no more.
func reads(t *testing.T, name, text, variable string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), natstest.Program(t), "-t", "-c", file)
	cmd.Env = append(os.Environ(), variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// TestServersRead wants the configurations of NATS to be such.
func TestServersRead(t *testing.T) {
	t.Parallel()
	folder := layOut(t)
	reads(t, "deploy/nats/nats.conf", strings.ReplaceAll(read(t, "deploy/nats/nats.conf"), "/etc/nats/", folder+"/"), "NATS_NAME=nats-1")
	for _, o := range objects(t) {
		if o.Kind == "ConfigMap" {
			reads(t, "deploy/kubernetes/nats.yaml", o.Data["nats.conf"], "POD_NAME=nats-0")
		}
	}
}

// object has what of the manifests is looked at.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas    int
		ServiceName string `yaml:"serviceName"`
		ClusterIP   string `yaml:"clusterIP"`
		Ports       []struct {
			Name string
			Port int
		}
		Template struct {
			Spec struct {
				Containers []struct {
					Image string
					Ports []struct {
						Name string
						Port int `yaml:"containerPort"`
					}
				}
			}
		}
	}
}

// objects are those of deploy/kubernetes/nats.yaml.
func objects(t *testing.T) (all []object) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, "deploy/kubernetes/nats.yaml")))
	for {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// TestServersInKubernetes wants the parts of the manifest to fit together.
func TestServersInKubernetes(t *testing.T) {
	t.Parallel()
	byKind := map[string][]object{}
	for _, o := range objects(t) {
		byKind[o.Kind] = append(byKind[o.Kind], o)
	}
	if len(byKind["StatefulSet"]) != 1 || len(byKind["ConfigMap"]) != 1 || len(byKind["Service"]) != 2 || len(byKind["PodDisruptionBudget"]) != 1 {
		t.Fatalf("there are %d objects of kinds %v", len(objects(t)), byKind)
	}
	set, conf := byKind["StatefulSet"][0], byKind["ConfigMap"][0].Data["nats.conf"]
	for i := range set.Spec.Replicas {
		if route := fmt.Sprintf("nats://%s-%d.%s:6222\n", set.Metadata.Name, i, set.Spec.ServiceName); !strings.Contains(conf, route) {
			t.Errorf("nats.conf has no route %s", route)
		}
	}
	headless := func(o object) bool { return o.Metadata.Name == set.Spec.ServiceName && o.Spec.ClusterIP == "None" }
	if !slices.ContainsFunc(byKind["Service"], headless) {
		t.Errorf("no headless service is called %q", set.Spec.ServiceName)
	}
	container := set.Spec.Template.Spec.Containers[0]
	for _, p := range container.Ports {
		if !strings.Contains(conf, fmt.Sprintf("0.0.0.0:%d\n", p.Port)) {
			t.Errorf("nats.conf listens not at the port %d, %s", p.Port, p.Name)
		}
	}
	// The server that the tests run is the one that is deployed.
	_, version, _ := strings.Cut(container.Image, ":")
	if pinned := "github.com/nats-io/nats-server/v2 v" + version + " "; !strings.Contains(read(t, "tools/nats/go.mod"), pinned) {
		t.Errorf("the image is %s, and tools/nats/go.mod has another version", container.Image)
	}
	if image := composed(t).Services["nats"].Image; image != container.Image {
		t.Errorf("the image is %s, and that of compose.yaml %s", container.Image, image)
	}
}
