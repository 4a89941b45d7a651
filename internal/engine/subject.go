package engine

import "strings"

// JobSubject returns the subject of a job. A subject consists of tokens separated by
// dots; the engine adds its namespace in front. The queue uses these subjects:
//
//	Jobs      job.<queue>.<priority>.<id>, or job.<queue>.<priority>-g.<id> for those with a group,
//	          and at.<id> for those with a time (made by the engine)
//	Outcomes  out.<id>
//	State     key.<queue>.<hash>   try.<id>   live.<id>   set.<what>.<token>, of which
//	          set.cron.<name> and set.tick.<name> of a schedule, with "=" for "."
//	          set.batch.<id>   set.bend.<batch>.<chunk>.<run of a node>: members that have ended
//	          set.lim.<queue>.<hash> (limits of groups)   set.slot.<queue>.<hash> (slots that nodes hold)
//	Dead      dead.<queue>.<id>
func JobSubject(c Consumer, id string) string {
	return "job." + c.Queue + "." + c.Level() + "." + id
}

// groupedEnd is the suffix of the priority token for jobs with a group.
const groupedEnd = "-g"

// Level returns the token that stands for the priority of c in subjects.
func (c Consumer) Level() string {
	if c.Grouped {
		return c.Priority + groupedEnd
	}
	return c.Priority
}

// ParseJob splits the subject of a job; ok is false if it is not one.
func ParseJob(subject string) (c Consumer, id string, ok bool) {
	kind, rest, _ := strings.Cut(subject, ".")
	queue, rest, _ := strings.Cut(rest, ".")
	level, id, _ := strings.Cut(rest, ".")
	if kind != "job" || queue == "" || level == "" || id == "" || strings.Contains(id, ".") {
		return Consumer{}, "", false
	}
	priority, grouped := strings.CutSuffix(level, groupedEnd)
	return Consumer{Queue: queue, Priority: priority, Grouped: grouped}, id, true
}

// LastToken returns the part of subject after its last dot.
func LastToken(subject string) string {
	return subject[strings.LastIndexByte(subject, '.')+1:]
}

// Matches reports whether subject matches pattern: a token "*" matches any token, a last
// token ">" all remaining ones.
func Matches(pattern, subject string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, ".")
		if p == ">" && !pmore {
			return true
		}
		s, srest, smore := strings.Cut(subject, ".")
		if p != "*" && p != s || pmore != smore {
			return false
		}
		if !pmore {
			return true
		}
		pattern, subject = prest, srest
	}
}
