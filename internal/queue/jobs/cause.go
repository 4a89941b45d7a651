package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

const (
	longestCause = 200
	// causesTime is how long a call of DeadCauses reads jobs, mostCauses how many causes
	// it tells apart.
	causesTime = 120 * time.Millisecond
	mostCauses = 1000
)

// DeadCauses implements queue.Queue.DeadCauses.
func (q *Jobs) DeadCauses(ctx context.Context, f job.Filter) (job.Causes, error) {
	f.Newest = true
	s, err := newSelection(f, partDead)
	if err != nil {
		return job.Causes{}, err
	}
	var c job.Causes
	byPrint := map[string]*job.Cause{}
	next, err := q.look(ctx, s, causesTime, func(i *job.Info, _ uint64) bool {
		c.Jobs++
		one := causeOf(i)
		all := byPrint[one.Fingerprint]
		if all == nil {
			one.First, one.Last, one.Sample = i.Ended, i.Ended, i.ID
			all = &one
			byPrint[one.Fingerprint] = all
		}
		all.Count++
		if i.Ended.Before(all.First) {
			all.First = i.Ended
		}
		if i.Ended.After(all.Last) {
			all.Last = i.Ended
		}
		return len(byPrint) < mostCauses
	})
	if err != nil {
		return job.Causes{}, err
	}
	c.More = next != 0
	for _, one := range byPrint {
		c.Causes = append(c.Causes, *one)
	}
	slices.SortFunc(c.Causes, func(a, b job.Cause) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.Fingerprint, b.Fingerprint)
	})
	return c, nil
}

// causeOf returns the cause of a job that has ended, without the counts over all its
// jobs.
func causeOf(i *job.Info) job.Cause {
	c := job.Cause{Queue: i.Queue, Name: i.Name, Reason: i.Reason, Outcome: i.Outcome, Error: pattern(errorLine(i.Err))}
	h := sha256.New()
	for _, part := range []string{c.Queue, c.Name, string(c.Reason), c.Outcome.String(), c.Error} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	c.Fingerprint = hex.EncodeToString(h.Sum(nil)[:job.FingerprintLength/2])
	return c
}

// errorLine returns the first line of why a job failed, without what the cause states
// anyway.
func errorLine(err error) string {
	var end *job.EndError
	text := ""
	switch {
	case err == nil:
	case !errors.As(err, &end):
		text = err.Error()
	case end.Task != nil:
		text = record.FirstLine(end.Task)
	default:
		text = end.Message
	}
	text, _, _ = strings.Cut(text, "\n")
	return record.Cut(text, record.LongestError)
}

// pattern removes from a line what differs from job to job: numbers, ids and hexadecimal
// digits become "#", quoted parts "…" in their quotes.
func pattern(line string) string {
	var b strings.Builder
	for rest := line; rest != "" && b.Len() < longestCause; {
		r, size := utf8.DecodeRuneInString(rest)
		switch n := quoted(b.String(), rest); {
		case n > 0:
			b.WriteString(rest[:size] + "…" + rest[n-size:n])
			rest = rest[n:]
		case wordly(r):
			n := wordEnd(rest)
			writeWord(&b, rest[:n])
			rest = rest[n:]
		case unicode.IsSpace(r) || !unicode.IsPrint(r):
			if s := b.String(); s != "" && !strings.HasSuffix(s, " ") {
				b.WriteByte(' ')
			}
			rest = rest[size:]
		default:
			b.WriteRune(r) // an invalid byte becomes U+FFFD, which is printed
			rest = rest[size:]
		}
	}
	return strings.TrimRight(record.Cut(b.String(), longestCause), " ")
}

// quoted returns the length of the quoted part at the start of rest, 0 for none. An
// apostrophe within a word does not start one.
func quoted(before, rest string) int {
	mark := rest[0]
	if mark != '"' && mark != '\'' && mark != '`' {
		return 0
	}
	if last, _ := utf8.DecodeLastRuneInString(before); mark == '\'' && wordly(last) {
		return 0
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case mark:
			return i + 1
		}
	}
	return 0
}

func wordly(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// wordEnd returns where the word at the start of s ends: behind the last letter or digit.
// "-", ".", ":" and "/" between digits do not end it.
func wordEnd(s string) int {
	end, wasDigit := 0, false
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case wordly(r):
			wasDigit = unicode.IsDigit(r)
		case uuidLength(s, i) > 0:
			size = uuidLength(s, i)
			wasDigit = true
		case strings.ContainsRune("-.:/", r) && wasDigit && i+1 < len(s) && isDigit(s[i+1]):
		default:
			return end
		}
		i += size
		end = i
	}
	return end
}

// uuidLength returns the length of the rest of a UUID whose first 8 digits end at i, 0
// for none.
func uuidLength(s string, i int) int {
	const rest = len("-0000-0000-0000-000000000000")
	if i < 8 || len(s) < i+rest || !isHex(s[i-8:i]) {
		return 0
	}
	for _, part := range [][2]int{{1, 5}, {6, 10}, {11, 15}, {16, rest}} {
		if s[i+part[0]-1] != '-' || !isHex(s[i+part[0]:i+part[1]]) {
			return 0
		}
	}
	return rest
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// A word is taken for an id if it has at least longID characters and idDigits digits.
const (
	longID   = 16
	idDigits = 3
)

// writeWord writes a word: "#" if it is a number or an id, else the word with its digits
// replaced by "#".
func writeWord(b *strings.Builder, word string) {
	digits := 0
	for _, r := range word {
		if unicode.IsDigit(r) {
			digits++
		}
	}
	switch {
	case digits == 0:
		b.WriteString(word)
	case len(word) >= longID && digits >= idDigits, isHex(strings.ReplaceAll(word, "-", "")), strings.HasPrefix(word, "0x"):
		b.WriteByte('#')
	default:
		inNumber := false
		for _, r := range word {
			number := unicode.IsDigit(r) || inNumber && !wordly(r)
			if !number {
				b.WriteRune(r)
			} else if !inNumber {
				b.WriteByte('#')
			}
			inNumber = number
		}
	}
}
