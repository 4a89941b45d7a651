//go:build unix

package deploytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// layOut makes a folder with the files that configurations name below
// /etc/bullpen and /secrets, and a python3 that does nothing.
func layOut(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	cert, key := pair(t)
	for name, text := range map[string][]byte{
		"server.pem": cert, "server.key": key, "bullpen.pem": cert, "bullpen.key": key, "client.pem": cert, "client.key": key,
		"ca.pem": cert, "nats-ca.pem": cert, "nats.creds": []byte("-----BEGIN NATS USER JWT-----\n"),
		"tokens": []byte("admin me 0123456789abcdef0123456789abcdef\n"),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "python3"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// pair makes a certificate that signs itself.
func pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// load loads a configuration with the paths of layOut.
func load(t *testing.T, folder, name, text string) *settings.Settings {
	t.Helper()
	for _, prefix := range []string{"/etc/bullpen/", "/secrets/"} {
		text = strings.ReplaceAll(text, prefix, folder+"/")
	}
	for _, program := range []string{"[python3,", "[/usr/bin/python3,"} {
		text = strings.ReplaceAll(text, program, "["+filepath.Join(folder, "python3")+",")
	}
	s, err := settings.Load(settings.Source{Path: filepath.Join(folder, "bullpen.yaml"), Text: []byte(text)})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return s
}

// blocks are the configurations in README.md, by the header above each.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	header := ""
	var text *strings.Builder
	for line := range strings.Lines(read(t, "deploy/README.md")) {
		switch {
		case text != nil && line == "```\n":
			if strings.HasPrefix(text.String(), "# bullpen.yaml\n") {
				all[header] = text.String()
			}
			text = nil
		case text != nil:
			text.WriteString(line)
		case strings.HasPrefix(line, "```yaml"):
			text = &strings.Builder{}
		case strings.HasPrefix(line, "#"):
			header = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return all
}

func TestConfigurationsLoad(t *testing.T) {
	t.Parallel()
	folder := layOut(t)
	for _, path := range []string{"deploy/systemd/bullpen.yaml", "deploy/compose/bullpen.yaml"} {
		load(t, folder, path, read(t, path))
	}
	// The pool that stands there as a comment.
	load(t, folder, "the example", strings.ReplaceAll(strings.Replace(read(t, "deploy/systemd/bullpen.yaml"), "pools: {}", "pools:", 1), "\n#  ", "\n  "))

	examples := blocks(t)
	want := []string{"Beyond this machine", "Embedded: one machine", "External server: many daemons"}
	if got := slices.Sorted(maps.Keys(examples)); !slices.Equal(got, want) {
		t.Errorf("README.md has configurations below %q, want %q", got, want)
	}
	for name, text := range examples {
		load(t, folder, name, text)
	}
}

// TestGraces wants what stops a daemon to wait 15 s longer than it.
func TestGraces(t *testing.T) {
	t.Parallel()
	folder := layOut(t)
	const more = 15 * time.Second
	var unit string
	for line := range strings.Lines(read(t, "deploy/systemd/bullpen.service")) {
		if value, ok := strings.CutPrefix(line, "TimeoutStopSec="); ok {
			unit = strings.TrimSpace(value) + "s"
		}
	}
	for path, text := range map[string]string{"deploy/systemd/bullpen.yaml": unit, "deploy/compose/bullpen.yaml": composed(t).Services["bullpen"].StopGracePeriod} {
		s := load(t, folder, path, read(t, path))
		if s == nil {
			continue
		}
		if bound, err := time.ParseDuration(text); err != nil || bound < s.Grace+more {
			t.Errorf("%s has a grace of %v, and it is killed after %q (%v): want %v", path, s.Grace, text, err, s.Grace+more)
		}
	}
}
