// Package probe tests actors of Proto.Actor from the outside: a [Probe] has a PID like any actor, but what it is
// sent waits in a queue until the test asks for it.
//
//	system := probe.NewSystem(t)
//	p := probe.New(t, system)
//	greeter := system.Root.Spawn(actor.PropsFromProducer(newGreeter))
//
//	p.Request(greeter, &greet{name: "Ada"})
//	got := probe.Expect[*greeting](p)
//
// A probe stands in for whatever the actor under test talks to: the requester ([Probe.Request]), a subscriber
// (give its [Probe.PID] to the actor), a collaborator that answers ([Probe.Reply], [Probe.SetAutoPilot]), a
// watcher ([Probe.Watch], [Probe.ExpectTerminated]), or one that dies ([Probe.Stop]).
//
// # What a probe takes
//
// Taking a message removes it from the queue.
//
//   - [Expect]: the next message must be of the type wanted.
//   - [Fish]: messages are taken until one fits; a failure lists what was passed over.
//   - [ReceiveN]: the next n messages must all be of the type wanted.
//   - [Probe.ExpectTerminated], [Probe.ExpectStopped]: leave other messages where they are.
//   - [Probe.ExpectNone]: nothing may come for a while.
//   - [Probe.TryReceive]: whatever is there now, without waiting.
//
// Those that wait fail the test by Fatalf, so they must be called from the goroutine of the test, as must New.
// They wait 3 s unless told otherwise ([Probe.SetTimeout], or a duration as last argument).
//
// # Virtual time
//
// A probe has no goroutine and all its waiting is on timers and channels, so it works in a bubble of
// testing/synctest, where an ExpectNone of an hour costs nothing. Create the actor system and the probes inside the
// bubble. A message and the end of a wait that fall on the same instant of virtual time may be met in either
// order: choose waits which are longer or shorter than the actor's own delays, not equal to them.
//
// Create the system with [NewSystem]: one made by actor.NewActorSystem starts a goroutine that lives for a second
// whenever it logs a dead letter, which the end of a bubble reports as a deadlock, and a goroutine check as a leak.
package probe
