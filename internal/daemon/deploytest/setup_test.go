//go:build unix

package deploytest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// TestSetup runs the script that makes certificates and tokens, twice.
func TestSetup(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"openssl", "sh"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs ", program, ": ", err)
		}
	}
	secrets := t.TempDir()
	run := func() string {
		out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(root, "deploy", "compose", "setup.sh"), secrets, t.TempDir()).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := run(); !strings.Contains(out, "made") {
		t.Errorf("it says %q", out)
	}
	before, err := os.ReadFile(filepath.Join(secrets, "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	if out := run(); out != "" {
		t.Errorf("the second time it says %q", out)
	}
	if after, err := os.ReadFile(filepath.Join(secrets, "tokens")); err != nil || string(after) != string(before) {
		t.Errorf("the second time the tokens are others (%v)", err)
	}
	if strings.Count(string(before), "sha256:") != 3 {
		t.Errorf("the file of tokens is %q", before)
	}
	checkCertificates(t, secrets)
	if _, err := access.New(access.Config{HTTP: settings.HTTP{
		Listen: "0.0.0.0:8650", Cert: filepath.Join(secrets, "bullpen.pem"), Key: filepath.Join(secrets, "bullpen.key"),
		Tokens: filepath.Join(secrets, "tokens"), Hosts: []string{"localhost"},
	}}); err != nil {
		t.Errorf("the daemon does not take them: %v", err)
	}
}

// checkCertificates wants each to be signed, for its use and names, and the key that
// signed them to be gone.
func checkCertificates(t *testing.T, secrets string) {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(secrets, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("ca.pem is no certificate")
	}
	for _, c := range []struct {
		name, host string
		use        x509.ExtKeyUsage
	}{
		{"bullpen", "localhost", x509.ExtKeyUsageServerAuth}, {"bullpen", "bullpen", x509.ExtKeyUsageServerAuth}, {"bullpen", "127.0.0.1", x509.ExtKeyUsageServerAuth},
		{"nats", "nats", x509.ExtKeyUsageServerAuth}, {"client", "bullpen", x509.ExtKeyUsageClientAuth},
	} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(secrets, c.name+".pem"), filepath.Join(secrets, c.name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.host, KeyUsages: []x509.ExtKeyUsage{c.use}}); err != nil {
			t.Errorf("%s for %s: %v", c.name, c.host, err)
		}
	}
	if _, err := os.Stat(filepath.Join(secrets, "ca.key")); !os.IsNotExist(err) {
		t.Error("the key of the authority is kept")
	}
	for _, name := range []string{"tokens", "admin.token", "bullpen.key"} {
		if info, err := os.Stat(filepath.Join(secrets, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be read by others, or is not there (%v)", name, err)
		}
	}
}
