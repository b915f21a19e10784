package remoting

import (
	"context"
	"iter"
	"log/slog"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// callSize is the most bytes of messages that are sent together: what a receiver with gRPC's defaults takes, less some room for what is
// around them.
const callSize = 4<<20 - 64<<10

// envelopeSize is more than an envelope takes beside its message, unless it has headers.
const envelopeSize = 64

// splitter sends in several calls what Proto.Actor, which only counts messages (up to a thousand), would send in one of any size. What is too large by
// itself is dropped: the receiver would end the connection.
type splitter struct {
	max int
	log *slog.Logger
}

func (p splitter) intercept(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil {
		return nil, err
	}
	return &splittingStream{ClientStream: stream, splitter: p, peer: conn.Target()}, nil
}

type splittingStream struct {
	grpc.ClientStream
	splitter
	peer string
}

// SendMsg implements grpc.ClientStream.
func (s *splittingStream) SendMsg(m any) error {
	message, ok := m.(*remote.RemoteMessage)
	if !ok || message.GetMessageBatch() == nil {
		return s.ClientStream.SendMsg(m)
	}
	for part := range s.parts(message.GetMessageBatch()) {
		if err := s.ClientStream.SendMsg(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: part}}); err != nil {
			return err
		}
	}
	return nil
}

// parts are batches that may be sent, in order.
func (s *splittingStream) parts(b *remote.MessageBatch) iter.Seq[*remote.MessageBatch] {
	return func(yield func(*remote.MessageBatch) bool) {
		around := proto.Size(&remote.MessageBatch{TypeNames: b.GetTypeNames(), Targets: b.GetTargets(), Senders: b.GetSenders()})
		rest := b.GetEnvelopes()
		for len(rest) > 0 {
			n, bytes := 0, around
			for n < len(rest) {
				size := sizeOf(rest[n])
				if n > 0 && bytes+size > callSize {
					break
				}
				n, bytes = n+1, bytes+size
			}
			if n == 1 && bytes > s.max {
				s.tooLarge(b, rest[0], bytes)
			} else if !yield(&remote.MessageBatch{
				TypeNames: b.GetTypeNames(), Targets: b.GetTargets(), Senders: b.GetSenders(), Envelopes: rest[:n:n],
			}) {
				return
			}
			rest = rest[n:]
		}
	}
}

// sizeOf is at least what an envelope takes.
func sizeOf(e *remote.MessageEnvelope) int {
	size := len(e.GetMessageData()) + envelopeSize
	if e.GetMessageHeader() != nil {
		size += proto.Size(e.GetMessageHeader())
	}
	return size
}

func (s *splittingStream) tooLarge(b *remote.MessageBatch, e *remote.MessageEnvelope, bytes int) {
	s.log.Error("a message to a peer is too large and is dropped", slog.String("peer", s.peer), slog.Int("bytes", bytes), slog.Int("limit", s.max),
		slog.String("type", b.GetTypeNames()[e.GetTypeId()]), slog.String("to", b.GetTargets()[e.GetTarget()].GetId()),
		slog.String("advice", "raise WithMaxMessageSize on all nodes, or lower window_bytes"))
}
