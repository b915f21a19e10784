package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
)

// R26: --ordering reaches the subscription; what is neither is refused before anything is done.
func TestConsumeOrdering(t *testing.T) {
	require.Equal(t, messages.Ordering_ORDERING_UNSPECIFIED, (&consumeCmd{Ordering: "strict"}).descriptor().GetOrdering())
	require.Equal(t, messages.Ordering_ORDERING_RELAXED, (&consumeCmd{Ordering: "relaxed"}).descriptor().GetOrdering())
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	_, _, err := s.Put("s", "k", []byte("data"))
	require.NoError(t, err)
	r := s.run("", eager("consume", "s", "--from", "horizon", "--count", "1", "--ordering", "relaxed")...)
	require.Equal(t, exitDone, r.code, r.stderr)
	r = s.run("", "consume", "s", "--ordering", "none")
	require.NotEqual(t, exitDone, r.code)
	require.Contains(t, r.stderr, "strict")
}
