package settings

import (
	"regexp"

	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
)

func lambdaKeys() []key[Settings] {
	return []key[Settings]{
		row("lambda.listen", address, "(nowhere)", "address of the Lambda front, through which AWS SDKs invoke pools as functions. An address that other machines can reach needs http.tls and lambda.keys",
			func(s *Settings) *string { return &s.Lambda.Listen }),
		hidden(row("lambda.keys", path, "(none)", "file with the access keys of callers; reloaded when it changes. Each line is `ACCESS_KEY_ID SECRET_ACCESS_KEY`. Without it every caller on this machine may invoke",
			func(s *Settings) *string { return &s.Lambda.Keys })),
		row("lambda.account", matching("number", "use the 12 digits of an account", `\d{12}`), "(any)", "account of the functions; ARNs of other accounts are unknown", func(s *Settings) *string { return &s.Lambda.Account }),
		row("lambda.region", matching("name", "use the name of a region, such as us-east-1", `[a-z]{2}(-[a-z]+)+-\d`), "(any)", "region of the functions; ARNs of and signatures for other regions are refused",
			func(s *Settings) *string { return &s.Lambda.Region }),
	}
}

// matching returns a kind of texts that match a pattern as a whole.
func matching(name, use, pattern string) kind[string] {
	p := regexp.MustCompile("^" + pattern + "$")
	return scalar(name, use, func(s string) (string, bool) { return s, p.MatchString(s) })
}

func (l *loader) checkLambda() {
	c := &l.settings.Lambda
	if c.Listen == "" {
		for _, at := range []string{"lambda.keys", "lambda.account", "lambda.region"} {
			if l.given(at) {
				l.fault(at, "it is for the Lambda front, which is off: set lambda.listen, or leave it out")
			}
		}
		return
	}
	if l.checkFile("lambda.keys", c.Keys) && c.Keys != "" {
		for _, one := range leaves(sigv4.CheckFile(c.Keys)) {
			l.fault("lambda.keys", "%v", one)
		}
	}
	l.checkReach("lambda.listen", c.Listen, "lambda.keys", "keys (lambda.keys), so that not everybody can invoke", 8652)
}
