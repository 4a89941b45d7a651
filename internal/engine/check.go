package engine

import (
	"errors"
	"fmt"
	"strings"
)

// CheckPut returns every fault of a message that no engine would accept.
func CheckPut(p Put) error {
	if err := CheckStream(p.Stream); err != nil {
		return fmt.Errorf("put %s: %w", p.Subject, err)
	}
	var faults []error
	if err := CheckSubject(p.Subject); err != nil {
		faults = append(faults, err)
	}
	if p.Stream == Jobs {
		if _, _, ok := ParseJob(p.Subject); !ok {
			faults = append(faults, fmt.Errorf("put %s: a job is put to job.<queue>.<priority>.<id>", p.Subject))
		}
	}
	if p.New && p.After > 0 {
		faults = append(faults, fmt.Errorf("put %s: New and After cannot both hold", p.Subject))
	}
	if !p.At.IsZero() && p.Stream != Jobs {
		faults = append(faults, fmt.Errorf("put %s: only jobs can have a time At", p.Subject))
	}
	if p.TTL != 0 && (p.Stream != State || p.TTL < 0) {
		faults = append(faults, fmt.Errorf("put %s: only messages of state can have a TTL, and it must not be negative", p.Subject))
	}
	return errors.Join(faults...)
}

// CheckStream returns an error if s is not one of the streams.
func CheckStream(s Stream) error {
	if int(s) >= len(Streams()) {
		return fmt.Errorf("there is no stream %d", s)
	}
	return nil
}

// CheckSubject returns an error if subject cannot hold a message, because it has an empty
// token, a blank, a zero byte or a wildcard.
func CheckSubject(subject string) error {
	if subject == "" || subject[0] == '.' || subject[len(subject)-1] == '.' || strings.Contains(subject, "..") || strings.ContainsAny(subject, "*> \t\r\n\x00") {
		return fmt.Errorf("subject %q: it has an empty token, a blank, a zero byte or a wildcard", subject)
	}
	return nil
}
