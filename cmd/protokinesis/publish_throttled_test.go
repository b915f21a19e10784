package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// Lines wait for a shard that is throttled, however many they are. None is refused.
func TestPublishToAThrottledShard(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 2))
	var in strings.Builder
	const n = maxOutstanding + 500
	for i, lines := 0, 0; lines < n; i++ {
		key := fmt.Sprint("key-", i)
		if hash := (kpl.UserRecord{PartitionKey: key}).Hash(); hash[0] < 128 { // the first shard
			fmt.Fprintf(&in, `{"k":%q}`+"\n", key)
			lines++
		}
	}
	first := s.Shards("s")[0].ID
	throttle := s.Fault("PutRecords", kinesistest.Match{Shard: first}, -1, kinesistest.Partial("ProvisionedThroughputExceededException"))
	go func() {
		for throttle.Count() < 8 { // by then it is known which shard it is, and all lines that may be are outstanding
			runtime.Gosched()
		}
		throttle.Clear()
	}()
	r := s.run(in.String(), "publish", "s", "--key-field", "k", "--output", "json")
	require.Equal(t, exitDone, r.code, "%.500s", r.stderr)
	var summary publishResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &summary))
	require.Equal(t, n, summary.Published)
}
