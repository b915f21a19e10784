package remoting_test

import (
	"net"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// A peer that is killed closes its connections by that, so whoever watches is told without waiting for a keepalive.
func TestKilledPeersAreNoticed(t *testing.T) {
	t.Parallel()
	a, b := start(t, nodeSpec{}), start(t, nodeSpec{})
	a.watch(b.counter())
	began := time.Now()
	b.kill()
	require.Equal(t, actor.TerminatedReason_AddressTerminated.String(), a.terminated())
	t.Logf("noticed after %v", time.Since(began).Round(time.Millisecond))
}

// Nobody has ever listened there, or somebody listens who says nothing.
func TestPeersThatAreNotThereAreNoticed(t *testing.T) {
	t.Parallel()
	silent, closed := listen(t), listen(t)
	require.NoError(t, closed.Close())
	for name, l := range map[string]net.Listener{"closed": closed, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, nodeSpec{})
			began := time.Now()
			a.order(order{Do: "watch", To: actor.NewPID(l.Addr().String(), "counter")})
			require.NotEmpty(t, a.terminated()) // of the address, or of an actor that was not found: the watch that could not be sent is a dead letter
			t.Logf("noticed after %v", time.Since(began).Round(time.Millisecond))
			// It is not tried any more, and is when there is something for it.
			gone := time.Now().Add(patience)
			for a.trying() > 0 && time.Now().Before(gone) {
				time.Sleep(10 * time.Millisecond)
			}
			require.Zero(t, a.trying())
			a.order(order{Do: "watch", To: actor.NewPID(l.Addr().String(), "counter")})
			require.NotEmpty(t, a.terminated())
		})
	}
}

// A node that runs and has no such actor says so.
func TestActorsThatAreNotThereAreNoticed(t *testing.T) {
	t.Parallel()
	a, b := start(t, nodeSpec{}), start(t, nodeSpec{})
	a.watch(actor.NewPID(b.Address, "nobody"))
	require.NotEmpty(t, a.terminated())
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
