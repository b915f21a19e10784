package remoting

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// Every message that is not too large is in one part, in its order, and no part is larger than it may be.
func TestParts(t *testing.T) {
	data := make([]byte, 3*callSize)
	rapid.Check(t, func(t *rapid.T) {
		s := splittingStream{splitter: splitter{max: 2 * callSize, log: slog.New(slog.DiscardHandler)}}
		b := &remote.MessageBatch{
			TypeNames: []string{"type"}, Targets: []*actor.PID{actor.NewPID("a", "1"), actor.NewPID("b", strings.Repeat("2", 200_000))}, Senders: []*actor.PID{actor.NewPID("c", "3")},
		}
		var want []uint32
		for i, size := range rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, len(data)), rapid.IntRange(callSize-200, callSize+200)), 1, 30).Draw(t, "sizes") {
			e := &remote.MessageEnvelope{MessageData: data[:size], Target: int32(i % 2), Sender: 1, TargetRequestId: uint32(i + 1)}
			if rapid.IntRange(0, 9).Draw(t, "header") == 0 {
				e.MessageHeader = &remote.MessageHeader{HeaderData: map[string]string{"name": string(data[:callSize/2])}}
			}
			b.Envelopes = append(b.Envelopes, e)
			if sizeOf(e) < s.max-201_000 {
				want = append(want, e.GetTargetRequestId())
			} else if sizeOf(e) < s.max+1000 {
				t.Skip("at the limit")
			}
		}
		var got []uint32
		for part := range s.parts(b) {
			require.NotEmpty(t, part.GetEnvelopes())
			if len(part.GetEnvelopes()) > 1 {
				require.LessOrEqual(t, proto.Size(part), callSize)
			}
			require.LessOrEqual(t, proto.Size(part), s.max)
			require.Equal(t, b.GetTargets(), part.GetTargets())
			require.Equal(t, b.GetSenders(), part.GetSenders())
			require.Equal(t, b.GetTypeNames(), part.GetTypeNames())
			for _, e := range part.GetEnvelopes() {
				got = append(got, e.GetTargetRequestId())
			}
		}
		require.Equal(t, want, got)
	})
}
