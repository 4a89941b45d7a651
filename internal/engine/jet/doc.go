// Package jet keeps the store of jobs with NATS JetStream, on one server or a cluster of
// them. Where a job passes (storing, pulling, acknowledging) it speaks the protocol over
// core NATS itself, because a job costs two confirmed messages and must not cost a
// goroutine or a channel. Streams and consumers are managed with the client library.
//
// # Streams and consumers
//
// A namespace ns has four streams: BP_ns_JOBS (a work queue), and BP_ns_OUT, BP_ns_STATE
// and BP_ns_DEAD, which keep the newest message of each subject. All subjects begin with
// "bp.ns.". Each queue and priority has one durable consumer, named w_queue_priority.
//
// The server does not allow a stream that holds schedules to refuse new messages when it
// is full. So the stream of jobs has no bound on the server (nothing is ever dropped from
// it), and the engine enforces the bound: it reads the size of the stream, at most once a
// second while jobs come, and adds what it has put since. Several nodes together may
// therefore exceed the bound by what they put within a second.
//
// # Reading from replicas
//
// With one replica, the server that holds it answers reads. With more, Get asks the
// leader. Scan reads in bulk from any replica, and then asks the leader for what that
// replica did not have so far. So no message is missing, but one that was just deleted
// may still be among the results.
//
// # Giving back
//
// In a cluster a waiting request cannot be withdrawn by ending its subscription: a
// message on its way from another server would be dropped, and delivered again only after
// its lease. So requests are short-lived there, messages that come without a waiting
// request go back at once, and Close waits until the last request has expired. Nodes
// report to each other what they give back, because the server's count of deliveries does
// not distinguish a job that was given back from one whose node has died.
package jet
