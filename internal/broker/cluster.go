package broker

// ClientURL is where clients of other programs connect to, empty when the
// server listens nowhere.
func (b *Broker) ClientURL() string {
	if b.c.Cluster == nil {
		return ""
	}
	return b.server.ClientURL()
}

// RouteAddress is where other servers of the cluster connect to, empty when
// there is no cluster.
func (b *Broker) RouteAddress() string {
	if a := b.server.ClusterAddr(); a != nil {
		return a.String()
	}
	return ""
}

// Current tells whether the server knows all that its cluster has decided, so
// that streams can be made. One that is no cluster always does.
func (b *Broker) Current() bool { return b.c.Cluster == nil || b.server.JetStreamIsCurrent() }

// Leads tells whether the server leads its cluster.
func (b *Broker) Leads() bool { return b.server.JetStreamIsLeader() }

// Peers is how many other servers of the cluster are connected.
func (b *Broker) Peers() int { return b.server.NumRemotes() }

// Members is how many servers of the cluster, itself included, can be given
// streams to keep, as the server that leads it knows; of the others it is 0.
func (b *Broker) Members() int { return len(b.server.JetStreamClusterPeers()) }
