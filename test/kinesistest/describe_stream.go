package kinesistest

import (
	"slices"
	"strings"
)

const (
	defaultDescribeShards = 100
	defaultListStreams    = 100
	maxListLimit          = 10_000
	encryptionNone        = "NONE"
)

// wireHashRange and the structs below are the API's shapes.
type wireHashRange struct {
	StartingHashKey string
	EndingHashKey   string
}

func wireRange(r hashRange) wireHashRange {
	return wireHashRange{StartingHashKey: r.start.String(), EndingHashKey: r.end.String()}
}

type wireSequenceRange struct {
	StartingSequenceNumber string
	EndingSequenceNumber   string `json:",omitempty"`
}

type wireShard struct {
	ShardId               string
	ParentShardId         string `json:",omitempty"`
	AdjacentParentShardId string `json:",omitempty"`
	HashKeyRange          wireHashRange
	SequenceNumberRange   wireSequenceRange
}

func (sh *shard) wire() wireShard {
	return wireShard{
		ShardId: sh.id, ParentShardId: sh.parent, AdjacentParentShardId: sh.adjacent,
		HashKeyRange:        sh.keysText,
		SequenceNumberRange: wireSequenceRange{StartingSequenceNumber: sh.startSeq, EndingSequenceNumber: sh.endSeq},
	}
}

type enhancedMetrics struct{ ShardLevelMetrics []string }

type streamDescription struct {
	StreamName              string
	StreamARN               string
	StreamStatus            string
	StreamModeDetails       streamMode
	StreamCreationTimestamp epoch
	RetentionPeriodHours    int
	EnhancedMonitoring      []enhancedMetrics
	EncryptionType          string
	Shards                  []wireShard
	HasMoreShards           bool
}

// describeStream is the request of DescribeStream.
type describeStream struct {
	streamRef
	Limit                 *int
	ExclusiveStartShardId string
}

type describeStreamAnswer struct{ StreamDescription streamDescription }

func (r *describeStream) describe(_ *Service, call *Call) { call.Stream = r.name() }

func (r *describeStream) run(x *exchange) (any, *apiError) {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	limit := defaultDescribeShards
	if r.Limit != nil {
		if limit, fail = checkLimit(*r.Limit); fail != nil {
			return nil, fail
		}
	}
	st.sweep(x.now.UnixMilli())
	st.mu.RLock()
	defer st.mu.RUnlock()
	d := streamDescription{
		StreamName: st.name, StreamARN: st.arn, StreamStatus: st.status, StreamModeDetails: streamMode{st.mode},
		StreamCreationTimestamp: epoch(st.createdAt), RetentionPeriodHours: st.retentionHours,
		EnhancedMonitoring: []enhancedMetrics{{ShardLevelMetrics: []string{}}}, EncryptionType: encryptionNone,
		Shards: []wireShard{},
	}
	for _, sh := range st.shardsAfter(r.ExclusiveStartShardId) {
		if st.status == statusCreating {
			break
		}
		if len(d.Shards) == limit {
			d.HasMoreShards = true
			break
		}
		d.Shards = append(d.Shards, sh.wire())
	}
	return &describeStreamAnswer{d}, nil
}

func checkLimit(limit int) (int, *apiError) {
	if limit < 1 || limit > maxListLimit {
		return 0, validation("Value '%d' at 'limit' failed to satisfy constraint: "+
			"Member must have value between 1 and %d", limit, maxListLimit)
	}
	return limit, nil
}

// describeStreamSummary is the request of DescribeStreamSummary.
type describeStreamSummary struct{ streamRef }

type streamDescriptionSummary struct {
	StreamName              string
	StreamARN               string
	StreamStatus            string
	StreamModeDetails       streamMode
	StreamCreationTimestamp epoch
	RetentionPeriodHours    int
	EnhancedMonitoring      []enhancedMetrics
	EncryptionType          string
	OpenShardCount          int
	ConsumerCount           int
	MaxRecordSizeInKiB      int
}

type describeStreamSummaryAnswer struct{ StreamDescriptionSummary streamDescriptionSummary }

func (r *describeStreamSummary) describe(_ *Service, call *Call) { call.Stream = r.name() }

func (r *describeStreamSummary) run(x *exchange) (any, *apiError) {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	d := streamDescriptionSummary{
		StreamName: st.name, StreamARN: st.arn, StreamStatus: st.status, StreamModeDetails: streamMode{st.mode},
		StreamCreationTimestamp: epoch(st.createdAt), RetentionPeriodHours: st.retentionHours,
		EnhancedMonitoring: []enhancedMetrics{{ShardLevelMetrics: []string{}}}, EncryptionType: encryptionNone,
		OpenShardCount: len(st.routes), ConsumerCount: len(st.consumers), MaxRecordSizeInKiB: st.maxRecordKiB,
	}
	if st.status == statusCreating {
		d.OpenShardCount = 0
	}
	return &describeStreamSummaryAnswer{d}, nil
}

// listStreams is the request of ListStreams.
type listStreams struct {
	Limit                    *int
	ExclusiveStartStreamName string
	NextToken                string
}

type streamSummary struct {
	StreamName              string
	StreamARN               string
	StreamStatus            string
	StreamModeDetails       streamMode
	StreamCreationTimestamp epoch
}

type listStreamsAnswer struct {
	StreamNames     []string
	HasMoreStreams  bool
	NextToken       string `json:",omitempty"`
	StreamSummaries []streamSummary
}

func (r *listStreams) describe(*Service, *Call) {}

func (r *listStreams) run(x *exchange) (any, *apiError) {
	limit, after := defaultListStreams, r.ExclusiveStartStreamName
	if r.Limit != nil {
		var fail *apiError
		if limit, fail = checkLimit(*r.Limit); fail != nil {
			return nil, fail
		}
	}
	if r.NextToken != "" {
		var token pageToken
		if fail := x.svc.readToken(r.NextToken, x.now, &token); fail != nil {
			return nil, fail
		}
		after = token.After
	}
	streams := x.svc.all()
	slices.SortFunc(streams, func(a, b *stream) int { return strings.Compare(a.name, b.name) })
	answer := &listStreamsAnswer{StreamNames: []string{}, StreamSummaries: []streamSummary{}}
	for _, st := range streams {
		if st.name <= after {
			continue
		}
		if len(answer.StreamNames) == limit {
			answer.HasMoreStreams = true
			last := answer.StreamNames[limit-1]
			answer.NextToken = x.svc.writeToken(pageToken{Issued: x.now.UnixMilli(), After: last})
			break
		}
		st.mu.RLock()
		answer.StreamNames = append(answer.StreamNames, st.name)
		answer.StreamSummaries = append(answer.StreamSummaries, streamSummary{
			StreamName: st.name, StreamARN: st.arn, StreamStatus: st.status,
			StreamModeDetails: streamMode{st.mode}, StreamCreationTimestamp: epoch(st.createdAt),
		})
		st.mu.RUnlock()
	}
	return answer, nil
}

// describeLimits is the request of DescribeLimits.
type describeLimits struct{}

type describeLimitsAnswer struct {
	ShardLimit               int
	OpenShardCount           int
	OnDemandStreamCount      int
	OnDemandStreamCountLimit int
}

func (*describeLimits) describe(*Service, *Call) {}

func (*describeLimits) run(x *exchange) (any, *apiError) {
	answer := &describeLimitsAnswer{
		ShardLimit: x.svc.cfg.shardLimit, OpenShardCount: x.svc.openShards(), OnDemandStreamCountLimit: 50,
	}
	for _, st := range x.svc.all() {
		st.mu.RLock()
		if st.mode == modeOnDemand {
			answer.OnDemandStreamCount++
		}
		st.mu.RUnlock()
	}
	return answer, nil
}
