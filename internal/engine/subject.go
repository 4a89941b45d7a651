package engine

import "strings"

// JobSubject returns the subject of a job. Subjects are made of tokens with dots
// between them; the engine puts its namespace in front. These are all that the
// queue uses:
//
//	Jobs      job.<queue>.<priority>.<id>, and at.<id> for those with a time (made by the engine)
//	Outcomes  out.<id>
//	State     key.<queue>.<hash>   try.<id>   live.<id>   set.<what>.<token>, of which
//	          set.batch.<id>   set.bend.<batch>.<chunk>.<run of a node>: members that have ended
//	Dead      dead.<queue>.<id>
func JobSubject(c Consumer, id string) string {
	return "job." + c.Queue + "." + c.Priority + "." + id
}

// LastToken returns what stands after the last dot.
func LastToken(subject string) string {
	return subject[strings.LastIndexByte(subject, '.')+1:]
}
