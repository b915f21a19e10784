package main

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// A node that was killed changes nothing and learns nothing, by whichever method of the store.
func TestPulledPlugLetsNothingThrough(t *testing.T) {
	memory := leasestore.NewMemory()
	var p plug
	var log strings.Builder
	s := &pluggedStore{&p, memory, newBoard()}
	stream := leasestore.StreamID{Name: "s"}
	lease, err := s.Acquire(t.Context(), leasestore.Lease{Key: leasestore.Key{Stream: stream, Shard: "shardId-000000000000"}}, "node-1-a")
	require.NoError(t, err)
	_, err = pluggedWriter{&p, &log}.Write([]byte("before"))
	require.NoError(t, err)
	before, err := memory.View(t.Context(), stream)
	require.NoError(t, err)

	p.pull()
	member := leasestore.Member{ID: "node-1-a"}
	arguments := map[reflect.Type]any{
		reflect.TypeFor[leasestore.Key](): lease.Key, reflect.TypeFor[leasestore.StreamID](): stream, reflect.TypeFor[leasestore.Lease](): lease,
		reflect.TypeFor[leasestore.Checkpoint](): leasestore.TrimHorizon(), reflect.TypeFor[leasestore.StreamState](): leasestore.StreamState{Stream: stream},
		reflect.TypeFor[leasestore.Member](): member, reflect.TypeFor[string](): "node-2-b", reflect.TypeFor[int64](): int64(1),
		reflect.TypeFor[context.Context](): t.Context(),
	}
	for method := range reflect.TypeFor[leasestore.Store]().Methods() {
		if method.Name == "Close" {
			continue
		}
		var in []reflect.Value
		for kind := range method.Type.Ins() {
			require.Contains(t, arguments, kind, method.Name)
			in = append(in, reflect.ValueOf(arguments[kind]))
		}
		out := reflect.ValueOf(s).MethodByName(method.Name).Call(in)
		require.Equal(t, errPulled, out[len(out)-1].Interface(), method.Name)
	}
	after, err := memory.View(t.Context(), stream)
	require.NoError(t, err)
	require.Equal(t, before, after)
	_, err = pluggedWriter{&p, &log}.Write([]byte("after"))
	require.ErrorIs(t, err, errPulled)
	require.Equal(t, "before", log.String())
	_, err = pluggedHTTP{&p, http.DefaultClient}.Do(nil) //nolint:bodyclose // there is no response
	require.ErrorIs(t, err, errPulled)
}
