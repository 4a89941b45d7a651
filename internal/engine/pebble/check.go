package pebble

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// checkPut finds what no engine could store.
func checkPut(p engine.Put) error {
	if int(p.Stream) >= len(engine.Streams()) {
		return fmt.Errorf("put %s: there is no stream %d", p.Subject, p.Stream)
	}
	faults := []error{checkSubject(p.Subject)}
	if p.Stream == engine.Jobs {
		if _, _, ok := engine.ParseJob(p.Subject); !ok {
			faults = append(faults, fmt.Errorf("put %s: a job is put to job.<queue>.<priority>.<id>", p.Subject))
		}
	}
	if p.New && p.After > 0 {
		faults = append(faults, fmt.Errorf("put %s: New and After cannot both hold", p.Subject))
	}
	if !p.At.IsZero() && p.Stream != engine.Jobs {
		faults = append(faults, fmt.Errorf("put %s: only jobs have a time At", p.Subject))
	}
	if p.TTL != 0 && (p.Stream != engine.State || p.TTL < 0) {
		faults = append(faults, fmt.Errorf("put %s: a TTL is for messages of state, and not negative", p.Subject))
	}
	return errors.Join(faults...)
}

// checkStream finds a stream that there is not.
func checkStream(s engine.Stream) error {
	if int(s) >= len(engine.Streams()) {
		return fmt.Errorf("there is no stream %d", s)
	}
	return nil
}

func checkSubject(subject string) error {
	if subject == "" || subject[0] == '.' || subject[len(subject)-1] == '.' || strings.Contains(subject, "..") || strings.ContainsAny(subject, "*> \t\r\n\x00") {
		return fmt.Errorf("subject %q: it has an empty token, a blank, a zero byte or a wildcard", subject)
	}
	return nil
}
