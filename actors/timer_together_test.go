package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Long pauses end sooner by less than a moment, at moments that all of them share; short ones are as they were.
func TestLongPausesEndTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, rapid.Int64Range(1e18, 2e18).Draw(t, "now"))
		pause := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pause"))
		got := together(now, pause)
		if pause < 2*time.Second {
			require.Equal(t, pause, got)
			return
		}
		require.LessOrEqual(t, got, pause)
		require.Greater(t, got, pause-moments)
		require.Zero(t, now.Add(got).UnixNano()%int64(moments))
	})
}
