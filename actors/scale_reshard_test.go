package actors

import (
	"math/big"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"
)

// splitAll splits every open shard in two.
func (w *world) splitAll() {
	w.t.Helper()
	for _, s := range w.service.Shards(testStream) {
		if s.EndSequence != "" {
			continue
		}
		low, _ := new(big.Int).SetString(s.StartHash, 10)
		high, _ := new(big.Int).SetString(s.EndHash, 10)
		_, err := inProcess(w.service).Control.(*kinesis.Client).SplitShard(w.t.Context(), &kinesis.SplitShardInput{
			StreamName: aws.String(testStream), ShardToSplit: aws.String(s.ID), NewStartingHashKey: aws.String(low.Add(low, high).Rsh(low, 1).String()),
		})
		require.NoError(w.t, err)
	}
}

// A reshard of the whole stream: each shard ends when it is polled next, and its children are read at once; but shards and leases are not listed anew
// for each of them.
func TestAReshardOfManyShardsIsNoBurst(t *testing.T) {
	const shards = 200
	log := new(writeLog)
	inBubble(t, shards, func(w *world) {
		w.open()
		time.Sleep(5 * time.Second)
		listed, looked := w.service.CallCount("ListShards"), log.calls("view")
		w.splitAll()
		time.Sleep(1500 * time.Millisecond)
		read := make(map[string]bool)
		for _, c := range w.service.Calls() {
			read[c.Shard] = read[c.Shard] || c.Op == "GetRecords"
		}
		for _, s := range w.service.Shards(testStream) {
			require.True(w.t, read[s.ID], s.ID)
		}
		require.Less(w.t, w.service.CallCount("ListShards")-listed, 40)
		require.Less(w.t, log.calls("view")-looked, 60)
	}, noted(log))
}
