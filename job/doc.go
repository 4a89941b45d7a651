// Package job has the nouns of a durable job: what is to be done ([Job]), when and
// how often ([Retry], [Schedule]), together with what ([Batch], [GroupLimits]), and
// what there is to know of it afterwards ([Info], [Attempt], [Cause]). It checks them,
// and does nothing with them: package queue keeps and runs jobs, and a daemon does so
// for others.
//
// The errors here are those of calls that name a job, wherever they are made; compare
// them by errors.Is.
package job
