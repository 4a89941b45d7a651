package command

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Separator splits values into columns.
type Separator struct{ pattern *regexp.Regexp }

// ParseSeparator parses a separator: a single character stands for itself, anything
// longer is a regular expression.
func ParseSeparator(s string) (*Separator, error) {
	if s == "" {
		return nil, errors.New("it is empty")
	}
	if utf8.RuneCountInString(s) == 1 {
		s = regexp.QuoteMeta(s)
	}
	pattern, err := regexp.Compile(s)
	if err != nil {
		return nil, fmt.Errorf("use a character, or a regular expression (RE2): %w", err)
	}
	if pattern.MatchString("") {
		return nil, errors.New("it matches the empty text, which separates nothing")
	}
	return &Separator{pattern: pattern}, nil
}

// Cut splits all values into columns, without the white space around them.
func (s *Separator) Cut(values []string) []string {
	var columns []string
	for _, v := range values {
		for _, c := range s.pattern.Split(v, -1) {
			columns = append(columns, strings.TrimSpace(c))
		}
	}
	return columns
}
