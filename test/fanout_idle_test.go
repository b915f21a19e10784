package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// TestIdleShardMovesOnWithFanOut: with enhanced fan-out, a shard without records is subscribed to again where its last event left off, not
// where the subscription was opened (R3).
func TestIdleShardMovesOnWithFanOut(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 1)
	p := newProbe(t, n)
	opened := subscribe(t, p, n, protokinesis.Stream(stream, protokinesis.EnhancedFanOut("idle")))
	require.Eventually(t, func() bool { // the first event has come
		p.Request(opened.GetSubscription(), &messages.StatusRequest{})
		return probe.Expect[*messages.Status](p).GetSubscriptions()[0].GetShards()[0].GetMillisBehindLatest() == 0
	}, patience, 5*time.Millisecond)
	service := s.server.Service
	service.Clock().Advance(6 * time.Minute) // a subscription lasts for five
	require.Eventually(t, func() bool { return service.CallCount("SubscribeToShard") > 1 }, patience, 5*time.Millisecond)
	var kinds []string
	for _, c := range service.Calls() {
		if c.Op == "SubscribeToShard" && c.ErrorCode == "" {
			kinds = append(kinds, c.IteratorType)
		}
	}
	require.Equal(t, "LATEST", kinds[0])
	for _, kind := range kinds[1:] {
		require.Equal(t, "AFTER_SEQUENCE_NUMBER", kind)
	}
	receipt := publishTo(t, n, stream, lowest)
	require.Equal(t, receipt.SequenceNumber, probe.Expect[*messages.Delivery](p).GetSequenceNumber())
}
