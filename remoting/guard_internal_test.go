package remoting

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
)

// quietStream is a peer that says who it is, and takes what is sent.
type quietStream struct {
	grpc.ServerStream
	peer string
}

func (s quietStream) RecvMsg(m any) error {
	m.(*remote.RemoteMessage).MessageType = &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
		ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: &remote.ServerConnection{SystemId: s.peer}},
	}}
	return nil
}

func (quietStream) SendMsg(any) error { return nil }

// A node that leaves says so from another goroutine than the one that takes messages in; the race detector looks on.
func TestLeavingWhileAPeerConnects(t *testing.T) {
	s := &guardedStream{ServerStream: quietStream{peer: "peer"}, log: slog.New(slog.DiscardHandler)}
	var leaving sync.WaitGroup
	leaving.Go(func() {
		assert.NoError(t, s.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_DisconnectRequest{DisconnectRequest: &remote.DisconnectRequest{}}}))
	})
	assert.NoError(t, s.RecvMsg(&remote.RemoteMessage{}))
	leaving.Wait()
}
