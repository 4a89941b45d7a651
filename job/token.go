package job

import (
	"fmt"
	"strings"
)

// LongestToken is how many characters such a name has at most.
const LongestToken = 64

// CheckToken reports what is wrong with a name of the kind that queues, namespaces
// and origins have; what says what it names. A nil error says that nothing is.
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
