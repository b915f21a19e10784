package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/test/emulators"
)

func TestZZ(t *testing.T) {
	t0 := time.Now()
	lap := func(s string) { t.Log(s, time.Since(t0)); t0 = time.Now() }
	s := emulator(t, kinesisLocal, emulators.KinesisLocal(t))
	n := s.connect(t)
	want := departuresOf(t, emulators.Flights(t)[:3000])
	for _, shards := range []int32{4, 16} {
		stream := s.newStream(t, shards)
		lap("stream")
		want.publish(t, n, stream)
		lap("publish")
		got := newRecorder()
		_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.HandlerFunc(got.handle))
		require.NoError(t, err)
		lap("subscribe")
		got.wait(t, 3000)
		lap("got")
	}
}
