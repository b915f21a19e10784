// Package remoting configures Proto.Actor's remote for the nodes of one application, so that their brokers can hint to each other and
// subscribers may live on any node.
//
//	system := actor.NewActorSystem()
//	node := remote.NewRemote(system, remoting.Configure("10.0.0.7", 0))
//	node.Start() // before anything is spawned: PIDs made earlier do not say where they are
//
// With a cluster, pass it to cluster.Configure instead of remote.Configure.
//
// # What it adds
//
// Remote as it comes loses or ends more than it must. Configured here:
//
//   - A message of a type that this process does not know is dropped and logged. Without, it ends the process, at the latest in a rolling
//     deployment. What else panics while a message is taken in ends that peer's connection, not the process.
//   - A peer that was killed is noticed at once, one that is frozen or cut off within 13 seconds or so ([WithKeepalive]), one that is not there
//     within 5. Whoever watches an actor there is told by Terminated, with the reason AddressTerminated or NotFound. Nothing is left that goes on
//     trying to reach it: the next message does.
//   - Messages may be as large as a full batch of deliveries: 32 MiB ([WithMaxMessageSize]), where gRPC's default is 4. Messages that are sent
//     together are split into calls of 4 MiB at most, so that many small ones do not add up to one that is too large. A message
//     that is too large is dropped and logged; otherwise it would cost the connection, and every message on its way, each time it is sent.
//   - The address that others know a node by is the one it listens on, or the one given by [WithAdvertisedHost]. A message sent to a node by
//     another spelling of its address (localhost for 127.0.0.1) is refused; otherwise it would go around in the node for ever.
//   - The queue of messages to a peer begins small (1024 places) and grows with what is in it.
//
// All nodes of an application should be configured alike: who sends splits, who receives sets the limit.
//
// # Trust
//
// Remote has no notion of who may do what: a peer that can connect can send any message to any actor of the node, Stop included, and say that it is
// anyone. So only nodes that are trusted as much as this process itself may reach its port. Without TLS that is up to the network. With mutual TLS
// ([WithMutualTLS]) it is whoever holds a certificate of the authority given: make it one for this application alone. Lease stores do not
// depend on it: hints from peers are no more than a reason to look at the store.
package remoting
