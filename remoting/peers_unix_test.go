//go:build unix

package remoting_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// A peer that does not run any more, though its connections stand, is noticed by its silence. Without keepalive it never is.
func TestFrozenPeersAreNoticed(t *testing.T) {
	t.Parallel()
	a, b := start(t, nodeSpec{}), start(t, nodeSpec{})
	a.watch(b.counter())
	began := time.Now()
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = b.cmd.Process.Signal(syscall.SIGCONT) })
	require.Equal(t, actor.TerminatedReason_AddressTerminated.String(), a.terminated())
	t.Logf("noticed after %v", time.Since(began).Round(time.Millisecond))

	require.NoError(t, b.cmd.Process.Signal(syscall.SIGCONT))
	require.Equal(t, 1, a.ask(order{To: b.counter(), Bytes: 1}).Answered, "it is reachable again once it runs again")
}
