package remoting

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// guard stands between gRPC and what Proto.Actor does with messages from peers, which trusts them to be flawless.
type guard struct{ log *slog.Logger }

// stream guards the one call by which peers send messages.
func (g guard) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer g.recovering(info.FullMethod, &err)
	return handler(server, &guardedStream{ServerStream: stream, log: g.log})
}

// unary guards calls that Proto.Actor announces and does not have.
func (g guard) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer g.recovering(info.FullMethod, &err)
	return handler(ctx, request)
}

func (g guard) recovering(method string, err *error) {
	if reason := recover(); reason != nil {
		g.log.Error("panic at a message from a peer; its connection ends", slog.String("method", method), slog.Any("panic", reason),
			slog.String("stack", string(debug.Stack())))
		*err = status.Errorf(codes.Internal, "panic: %v", reason)
	}
}

// guardedStream is a peer's connection. It leaves out what can't be taken in: what Proto.Actor returns an error for costs the connection, and with it
// what is on its way and every watch from there.
type guardedStream struct {
	grpc.ServerStream
	log    *slog.Logger
	peer   string // its actor system's id
	myself bool   // the peer is this node
	told   map[string]bool
}

// RecvMsg implements grpc.ServerStream.
func (s *guardedStream) RecvMsg(m any) error {
	if s.myself {
		return s.refuseMyself()
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	message, ok := m.(*remote.RemoteMessage)
	if !ok {
		return nil
	}
	switch t := message.GetMessageType().(type) {
	case *remote.RemoteMessage_ConnectRequest:
		s.peer = t.ConnectRequest.GetServerConnection().GetSystemId()
	case *remote.RemoteMessage_MessageBatch:
		s.sift(t.MessageBatch)
	}
	return nil
}

// SendMsg implements grpc.ServerStream. The answer to a connect request tells who this node is; only that comes from the goroutine that takes messages in.
func (s *guardedStream) SendMsg(m any) error {
	message, ok := m.(*remote.RemoteMessage)
	if response := message.GetConnectResponse(); ok && response != nil && s.peer != "" && response.GetMemberId() == s.peer {
		s.myself = true
		return s.refuseMyself()
	}
	return s.ServerStream.SendMsg(m)
}

// refuseMyself: an actor of this node was addressed by a spelling of the node's address that is not the node's, so that the node sends to itself
// what came to it.
func (s *guardedStream) refuseMyself() error {
	spelling := "another spelling of its address"
	if md, ok := metadata.FromIncomingContext(s.Context()); ok && len(md.Get(":authority")) > 0 {
		spelling = md.Get(":authority")[0]
	}
	s.log.Error("an actor of this node was addressed by a spelling that is not the node's address; messages to it are dropped",
		slog.String("address", spelling))
	return status.Errorf(codes.FailedPrecondition, "%s is this node, but not the address that it is known by", spelling)
}

// sift removes the envelopes that can't be taken in. Each reason is logged once per connection.
func (s *guardedStream) sift(b *remote.MessageBatch) {
	unknown := unknownTypes(b.GetTypeNames())
	b.Envelopes = slices.DeleteFunc(b.GetEnvelopes(), func(e *remote.MessageEnvelope) bool {
		why := flaw(b, e, unknown)
		if why != "" && !s.told[why] {
			s.log.Error("messages from a peer are dropped", slog.String("peer", s.peer), slog.String("reason", why))
			if s.told == nil || len(s.told) == maxTold {
				s.told = make(map[string]bool)
			}
			s.told[why] = true
		}
		return why != ""
	})
}

// maxTold bounds what a peer can make this node remember.
const maxTold = 100

// unknownTypes are the indexes of types that this process does not have.
func unknownTypes(names []string) map[int32]bool {
	var unknown map[int32]bool
	for i, name := range names {
		if _, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name)); err != nil {
			if unknown == nil {
				unknown = make(map[int32]bool)
			}
			unknown[int32(i)] = true
		}
	}
	return unknown
}

// protobufSerializer is Proto.Actor's number for it.
const protobufSerializer = 0

// flaw says why an envelope can't be taken in; empty if it can.
func flaw(b *remote.MessageBatch, e *remote.MessageEnvelope, unknown map[int32]bool) string {
	switch {
	case !within(e.GetTypeId(), len(b.GetTypeNames())), !within(e.GetTarget(), len(b.GetTargets())), !within(e.GetSender(), len(b.GetSenders())+1):
		return "it refers to what is not there"
	case e.GetSerializerId() == protobufSerializer && unknown[e.GetTypeId()]:
		return fmt.Sprintf("this process has no type %.100s", b.GetTypeNames()[e.GetTypeId()])
	default:
		return ""
	}
}

func within(i int32, length int) bool { return i >= 0 && int(i) < length }
