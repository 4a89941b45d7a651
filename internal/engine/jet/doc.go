// Package jet keeps the store of jobs with NATS JetStream, on one server or a cluster
// of them. It speaks the protocol over core NATS itself where a job passes (storing,
// pulling, acknowledging), because a job costs two confirmed messages and no goroutine
// or channel may be spent on one; streams and consumers are managed through the client
// library.
//
// # What is where
//
// A namespace ns has four streams: BP_ns_JOBS (a work queue), BP_ns_OUT,
// BP_ns_STATE and BP_ns_DEAD (the newest message of a subject each), with
// subjects that begin with "bp.ns.", and one durable consumer for each queue
// and priority, named w_queue_priority.
//
// The server refuses a stream that holds schedules and refuses new messages
// when full, so the stream of jobs has no bound of its own (nothing is ever
// dropped from it) and the engine keeps the bound: it looks how much there is,
// at most once a second while jobs come, and adds what it has put since. Several
// nodes together may so exceed the bound by what they put within a second.
//
// # Reading from replicas
//
// With one replica reads are answered by whoever holds it. With more, Get asks
// the leader; Scan reads in bulk from any replica and then asks the leader for
// what that replica did not have yet, so that nothing is missing, but a message
// that was deleted a moment ago may still be among the results.
//
// # Giving back
//
// In a cluster a request that waits cannot be withdrawn by ending its
// subscription: a message that is on its way from another server would be dropped,
// and come after its lease only. So requests are short there, what comes when
// nobody waits goes back at once, and Close waits until the last has expired.
// Nodes tell each other what they give back, because the server's count of
// deliveries does not tell a job that was given back from one whose node has died.
package jet
