package job

import (
	"fmt"
	"strings"
)

// LongestToken is the largest length of such a name.
const LongestToken = 64

// CheckToken reports what is wrong with the name of a queue, a namespace or an origin:
// it has lower-case letters, digits, "-" and "_". what says in the error what the name
// is of. nil means that the name is valid.
func CheckToken(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty: use lower-case letters, digits, \"-\" and \"_\"", what)
	}
	if len(s) > LongestToken {
		return fmt.Errorf("%s has %d characters: use %d at most", what, len(s), LongestToken)
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return fmt.Errorf("%s is %q: use lower-case letters, digits, \"-\" and \"_\" only", what, s)
	}
	return nil
}
