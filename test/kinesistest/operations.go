package kinesistest

// operations is the part of the API the service has.
var operations = map[string]operation{
	"CreateStream":                  plain(func() request { return new(createStream) }),
	"DeleteStream":                  plain(func() request { return new(deleteStream) }),
	"DescribeStream":                plain(func() request { return new(describeStream) }),
	"DescribeStreamSummary":         plain(func() request { return new(describeStreamSummary) }),
	"DescribeLimits":                plain(func() request { return new(describeLimits) }),
	"ListStreams":                   plain(func() request { return new(listStreams) }),
	"ListShards":                    plain(func() request { return new(listShards) }),
	"PutRecord":                     {parse: parsePutRecord},
	"PutRecords":                    {parse: parsePutRecords},
	"GetShardIterator":              plain(func() request { return new(getShardIterator) }),
	"GetRecords":                    {parse: parseGetRecords},
	"SplitShard":                    plain(func() request { return new(splitShard) }),
	"MergeShards":                   plain(func() request { return new(mergeShards) }),
	"UpdateShardCount":              plain(func() request { return new(updateShardCount) }),
	"UpdateMaxRecordSize":           plain(func() request { return new(updateMaxRecordSize) }),
	"IncreaseStreamRetentionPeriod": plain(func() request { return new(increaseRetention) }),
	"DecreaseStreamRetentionPeriod": plain(func() request { return new(decreaseRetention) }),
	"RegisterStreamConsumer":        plain(func() request { return new(registerConsumer) }),
	"DescribeStreamConsumer":        plain(func() request { return new(describeConsumer) }),
	"ListStreamConsumers":           plain(func() request { return new(listConsumers) }),
	"DeregisterStreamConsumer":      plain(func() request { return new(deregisterConsumer) }),
	"SubscribeToShard":              plain(func() request { return new(subscribe) }),
}
