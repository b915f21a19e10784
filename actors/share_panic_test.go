package actors

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// D11: a panic of any actor of the donor or the receiver, at any kind of message that it meets from before a node joins until another has left:
// nothing is lost or out of order, nobody delivers what is another's, every shard is read again, and the shutdown is answered.
func TestPanicAnywhereInAHandover(t *testing.T) {
	calm := map[string]*saboteur{"a": {met: make(map[panicPoint]int)}, "b": {met: make(map[panicPoint]int)}}
	handoverLife(t, calm)
	for _, who := range []string{"a", "b"} {
		points := make([]panicPoint, 0, len(calm[who].met))
		for p := range calm[who].met {
			points = append(points, p)
		}
		require.Greater(t, len(points), 20)
		slices.SortFunc(points, func(a, b panicPoint) int { return compareStrings(fmt.Sprint(a), fmt.Sprint(b)) })
		for _, p := range points {
			p.nth = 1
			t.Run(fmt.Sprintf("%s %s %s", who, p.role, p.message), func(t *testing.T) {
				saboteurs := map[string]*saboteur{"a": {met: make(map[panicPoint]int)}, "b": {met: make(map[panicPoint]int)}}
				saboteurs[who].at = &p
				handoverLife(t, saboteurs)
			})
		}
	}
}

// handoverLife is a node alone, one that joins, and the first leaving.
func handoverLife(t *testing.T, saboteurs map[string]*saboteur) {
	t.Helper()
	inCrew(t, 2, func(cr *crew) {
		sabotaged := func(name string) func(*Config) {
			return func(c *Config) { c.intercept = saboteurs[name].intercept }
		}
		cr.connectAndSubscribe("a", sabotaged("a"))
		cr.works(700 * time.Millisecond)
		cr.passSlowly(2 * time.Second)
		cr.connectAndSubscribe("b", sabotaged("b"))
		cr.passSlowly(20 * time.Second) // a ttl, and what comes after
		cr.balanced()
		began := time.Now()
		cr.shutDownTwice("a")
		cr.passSlowly(16 * time.Second)
		require.LessOrEqual(cr.t, cr.gap(began), takeoverTime)
		cr.works(0)
		cr.balanced()
		cr.check()
	})
}

// connectAndSubscribe asks until it is answered without an error, which an injected panic may cause.
func (cr *crew) connectAndSubscribe(name string, change ...func(*Config)) {
	cr.t.Helper()
	p := &process{w: cr.world}
	n := &crewNode{process: p, name: name}
	cfg := cr.cfg
	cfg.Name, cfg.OwnerID = name, name
	for _, f := range append(change, p.install) {
		f(&cfg)
	}
	broker, err := SpawnBroker(cr.system, cfg)
	require.NoError(cr.t, err)
	n.node = &node{w: cr.world, broker: broker}
	cr.living[name], cr.all[name] = n, n
	n.owner = cr.ask(broker, &messages.Connect{}).(*messages.Connected).GetOwnerId()
	subscribe := subscribeTo(testStream, cr.sub)
	if len(cr.all) == 1 {
		subscribe.Stream.StartAt = toHorizon()
	}
	cr.ask(broker, subscribe)
}

// ask asks up to three times, until the answer is no error.
func (cr *crew) ask(broker *pidOf, request any) any {
	cr.t.Helper()
	for range 3 {
		cr.me.Request(broker, request)
		answer := probe.Fish(cr.me, func(m any) bool {
			switch m.(type) {
			case *messages.Connected, *messages.Subscribed, *messages.Closed, *messages.Error:
				return true
			}
			return false
		})
		if e, failed := answer.(*messages.Error); !failed {
			return answer
		} else if e.GetField() == "stream.name" {
			return nil // it was subscribed all the same
		}
		time.Sleep(time.Second)
	}
	cr.t.Fatalf("%T failed again and again", request)
	return nil
}

// shutDownTwice shuts a node down; if that is answered by an error, once more.
func (cr *crew) shutDownTwice(name string) {
	cr.t.Helper()
	broker := cr.living[name].broker
	delete(cr.living, name)
	cr.ask(broker, &messages.Shutdown{})
}

// passSlowly is pass with two records a second in every shard.
func (cr *crew) passSlowly(d time.Duration) {
	cr.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		cr.putEach()
	}
}
