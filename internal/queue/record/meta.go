package record

// The keys of Meta that the queue sets.
const (
	MetaAttempt     = "bullpen.attempt"
	MetaRedelivered = "bullpen.redelivered"
	MetaParent      = "bullpen.parent"
	MetaUndoes      = "bullpen.undoes"
	MetaTask        = "bullpen.task"
	MetaReason      = "bullpen.reason"
	MetaOutcome     = "bullpen.outcome"
	MetaError       = "bullpen.error"
	MetaSchedule    = "bullpen.schedule"
	MetaTick        = "bullpen.tick"
	MetaChain       = "bullpen.chain"
	MetaLink        = "bullpen.link"
	MetaBatch       = "bullpen.batch"
	MetaIndex       = "bullpen.index"
)

// The keys of Meta that callbacks of batches have.
const (
	MetaTotal  = "bullpen.total"
	MetaOK     = "bullpen.ok"
	MetaFailed = "bullpen.failed"
)
