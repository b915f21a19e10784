package test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// TestSeeksTakeTurns: seeks that wait for one another are all carried out, each before it is answered.
func TestSeeksTakeTurns(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream, got := s.connect(t), s.newStream(t, 1), newRecorder()
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
	require.NoError(t, err)
	p := newProbe(t, n)
	const seeks = 10
	for i := range seeks {
		p.Request(sub.PID(), &messages.Seek{To: protokinesis.TrimHorizon(), Correlation: uint64(i) + 1})
	}
	for i := range seeks {
		sought := probe.Expect[*messages.Sought](p)
		assert.Equal(t, uint64(i)+1, sought.GetCorrelation())
		assert.Equal(t, sub.Shards(), sought.GetShards())
	}
}
