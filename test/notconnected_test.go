package test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// manyPending is a node whose publisher takes all that these tests send.
func manyPending(t *testing.T, s *target) *node {
	t.Helper()
	return s.connect(t, protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1, PendingRecords: 1_000_000}))
}

// TestEveryRequestIsAnswered: whatever is sent before, while and after a broker ends, by PIDs old and new, has one answer.
func TestEveryRequestIsAnswered(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests int
		end      func(t *testing.T, n *node, p *probe.Probe)
	}{
		{"shutdown", 60_000, func(t *testing.T, n *node, p *probe.Probe) {
			t.Helper()
			p.Request(n.PID(), &messages.Shutdown{Correlation: 1})
			assert.Empty(t, probe.Expect[*messages.Closed](p).GetUnfinished())
		}},
		{"poison pill", 20_000, func(t *testing.T, n *node, p *probe.Probe) {
			t.Helper()
			n.actors.Root.Poison(n.PID())
			p.Request(n.PID(), &messages.Shutdown{Correlation: 1}) // answered when it is closed
			assert.Empty(t, probe.Expect[*messages.Closed](p).GetUnfinished())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := embeddedService(t)
			n, stream := manyPending(t, s), s.newStream(t, 2)
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
			require.NoError(t, err)
			a, p := newAsker(n.actors, n.PID(), stream, c.requests), newProbe(t, n)

			ended := make(chan struct{})
			a.askAll(func() {
				go func() {
					defer close(ended)
					c.end(t, n, p)
				}()
			}, func() { <-ended })
			requireAnswered(t, a.wait(), c.requests)
		})
	}
}

// requireAnswered: one answer each, and after the end NOT_CONNECTED.
func requireAnswered(t *testing.T, got tally, requests int) {
	t.Helper()
	t.Log(got.Answers)
	require.Empty(t, got.Silent)
	require.Zero(t, got.Repeated)
	sum := 0
	for says, n := range got.Answers {
		sum += n
		assert.Contains(t, []string{
			saysNotConnected, "*messages.Published", "*messages.Status", "*messages.Connected", "*messages.Closed", "*messages.Sought",
			"INVALID", // Subscribe, as the stream is read already
			"READ",    // Seek, as it was overtaken by another or by the end
		}, says)
	}
	assert.Equal(t, requests, sum)
	assert.Greater(t, got.Answers[saysNotConnected], requests/4, "the last third at least")
	assert.Positive(t, got.Answers["*messages.Published"])
}

// TestStoppedByForce: a broker that is stopped without a chance to end in order still answers, but for a moment between
// leaving the registry and leaving word there.
func TestStoppedByForce(t *testing.T) {
	t.Parallel()
	const requests = 30_000
	s := embeddedService(t)
	n, stream := manyPending(t, s), s.newStream(t, 2)
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
	require.NoError(t, err)
	a, p := newAsker(n.actors, n.PID(), stream, requests), newProbe(t, n)
	p.Watch(n.PID())

	a.askAll(func() { n.actors.Root.Stop(n.PID()) }, func() { p.ExpectTerminated(n.PID()) })
	got := a.wait()
	t.Log(got.Answers)
	sum := 0
	for says, count := range got.Answers {
		sum += count
		assert.Contains(t, []string{
			saysNotConnected, "*messages.Published", "*messages.Status", "*messages.Connected", "*messages.Closed", "*messages.Sought",
			"INVALID", "READ", saysDeadLetter,
			"PUBLISH", // what was on its way: the outcome is unknown
			"STREAM",  // a Subscribe that was not open
		}, says)
	}
	assert.Equal(t, requests, sum, "silence, or dead letters, which do not say to what: %v", got.Silent)
	assert.Less(t, got.Answers[saysDeadLetter], requests/1000)
	assert.Zero(t, got.Repeated)
	_, err = n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, Data: []byte("data")})
	assert.ErrorIs(t, err, protokinesis.ErrNotConnected)
}
