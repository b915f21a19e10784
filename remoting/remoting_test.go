package remoting_test

import (
	"net"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/remoting"
)

// A message of a type that the other side does not have is dropped there, and nothing else: neither process nor connection nor what was sent
// with it.
func TestUnknownTypesCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	a, b := start(t, nodeSpec{}), start(t, nodeSpec{})
	a.watch(b.counter())
	for range 3 {
		a.order(order{Do: "unknown", To: b.counter()})
		require.Equal(t, 10, a.ask(order{To: b.counter(), Bytes: 1, Count: 10}).Answered)
	}
	assert.Contains(t, b.logged(), "later.v2.Novelty")
	require.Equal(t, 7, a.ask(order{To: b.counter(), Bytes: 7}).Answered)
	assert.Empty(t, a.told, "the connection has ended, so whoever watched was told that the other side is gone")
	assert.Equal(t, 1+3*10+1, b.received())
}

// What makes Proto.Actor panic ends the connection it came by, and neither the process nor other connections.
func TestPanicsAtMessagesCostOnlyTheirConnection(t *testing.T) {
	t.Parallel()
	a, b, other := start(t, nodeSpec{}), start(t, nodeSpec{}), start(t, nodeSpec{})
	a.watch(b.counter())
	other.watch(b.counter())
	a.order(order{Do: "malformed", To: b.counter()})
	assert.Contains(t, b.logged(), "panic")
	require.NotEmpty(t, a.terminated(), "the connection has ended")
	require.Equal(t, 1, a.ask(order{To: b.counter(), Bytes: 1}).Answered, "by the next connection")
	require.Equal(t, 7, other.ask(order{To: b.counter(), Bytes: 7}).Answered)
	assert.Empty(t, other.told)
}

// The largest batch of deliveries is a window of 16 MiB. More than gRPC's own 4 MiB arrives, alone and many at once.
func TestLargeMessagesPass(t *testing.T) {
	t.Parallel()
	a, b := start(t, nodeSpec{}), start(t, nodeSpec{})
	sent := 0
	for _, o := range []order{{Bytes: 8 << 20}, {Bytes: 16<<20 + 4<<20}, {Bytes: 1 << 20, Count: 50}, {Bytes: 3 << 20, Count: 5}, {Bytes: 10, Count: 3000}} {
		o.To = b.counter()
		require.Equal(t, o.Bytes*max(1, o.Count), a.ask(o).Answered, "%+v", o)
		sent += max(1, o.Count)
	}
	assert.Equal(t, sent, b.received())
}

// What the receiver would not take is dropped before it is sent, and costs nothing else.
func TestTooLargeMessagesCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	spec := nodeSpec{MaxMessage: 1 << 20}
	a, b := start(t, spec), start(t, spec)
	a.watch(b.counter())
	w := a.ask(order{To: b.counter(), Bytes: 2 << 20, Within: time.Second})
	require.Equal(t, actor.ErrTimeout.Error(), w.Failed)
	assert.Equal(t, 1000_000, a.ask(order{To: b.counter(), Bytes: 1000_000}).Answered)
	assert.Empty(t, a.told)
}

// A node without configuration of ours takes what is sent to it, up to gRPC's own limit for one message.
func TestManyMessagesPassToNodesAsTheyCome(t *testing.T) {
	t.Parallel()
	a, b := start(t, nodeSpec{}), start(t, nodeSpec{Plain: true})
	require.Equal(t, 30<<20, a.ask(order{To: b.counter(), Bytes: 1 << 20, Count: 30}).Answered)
}

// An address that is this node's in another spelling leads to nowhere, not around in circles: whoever watches there is told.
func TestAnotherSpellingOfTheAddressIsRefused(t *testing.T) {
	t.Parallel()
	a, b := start(t, nodeSpec{}), start(t, nodeSpec{})
	_, port, err := net.SplitHostPort(b.Address)
	require.NoError(t, err)
	wrong := actor.NewPID(net.JoinHostPort("localhost", port), "counter")
	require.Equal(t, actor.ErrTimeout.Error(), a.ask(order{To: wrong, Bytes: 1, Within: time.Second}).Failed)
	assert.Contains(t, b.logged(), wrong.GetAddress())
	b.order(order{Do: "watch", To: wrong})
	assert.NotEmpty(t, b.terminated())
	require.Equal(t, 1, a.ask(order{To: b.counter(), Bytes: 1}).Answered, "the right one")
	assert.Equal(t, 1, b.received())
}

// The address that a node tells is the one that others reach it by, whatever it was told.
func TestAddresses(t *testing.T) {
	t.Parallel()
	other := start(t, nodeSpec{})
	for name, c := range map[string]struct {
		spec nodeSpec
		host string
	}{
		"as it listens":               {nodeSpec{Host: "127.0.0.1"}, "127.0.0.1"},
		"by name":                     {nodeSpec{Host: "localhost"}, ""},
		"advertised":                  {nodeSpec{Host: "127.0.0.1", Advertised: "localhost"}, "localhost"},
		"advertised, everywhere":      {nodeSpec{Host: "0.0.0.0", Advertised: "127.0.0.1"}, "127.0.0.1"},
		"advertised, everywhere, too": {nodeSpec{Host: "::", Advertised: "localhost"}, "localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, c.spec)
			host, port, err := net.SplitHostPort(n.Address)
			require.NoError(t, err)
			require.NotEqual(t, "0", port)
			if c.host != "" {
				require.Equal(t, c.host, host)
			}
			require.Equal(t, 5, other.ask(order{To: n.counter(), Bytes: 5}).Answered)
			require.Equal(t, 5, n.ask(order{To: other.counter(), Bytes: 5}).Answered)
		})
	}
}

func TestConfigure(t *testing.T) {
	for _, host := range []string{"", "0.0.0.0", "::", "[::]"} {
		assert.PanicsWithValue(t, remotingPanic(host), func() { remoting.Configure(host, 0) })
	}
	c := remoting.Configure("::1", 4000, remoting.WithAdvertisedHost("node-1:5000"),
		remoting.WithRemoteOptions(remote.WithKinds(remote.NewKind("kind", nil))))
	assert.Equal(t, "[::1]:4000", c.Address())
	assert.Equal(t, "node-1:5000", c.AdvertisedHost, "as it is spelled")
	assert.Contains(t, c.Kinds, "kind")
	assert.Equal(t, 1024, c.EndpointWriterQueueSize)
	assert.Equal(t, "[::2]:4000", remoting.Configure("::1", 4000, remoting.WithAdvertisedHost("::2")).AdvertisedHost)
	assert.Equal(t, "node-1:4000", remoting.Configure("::1", 4000, remoting.WithAdvertisedHost("node-1")).AdvertisedHost)
}

func remotingPanic(host string) string {
	return `remoting: "` + host + `" means all interfaces, which is no address that other nodes can reach: use WithAdvertisedHost`
}
