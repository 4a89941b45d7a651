package record

import bullpen "github.com/bullpen-run/bullpen"

// Cut shortens s to the given number of bytes at most, without splitting a character.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xc0 == 0x80 {
		most--
	}
	return s[:most]
}

// LongestError bounds the text of an error in the history of attempts.
const LongestError = 500

// FirstLine returns the first line of a task's error.
func FirstLine(te *bullpen.TaskError) string {
	s := te.Message
	if s == "" && te.Err != nil {
		s = te.Err.Error()
	}
	if te.Type != "" {
		s = te.Type + ": " + s
	}
	for i, c := range s {
		if c == '\n' || i >= LongestError {
			return s[:i]
		}
	}
	return s
}
