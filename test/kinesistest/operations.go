package kinesistest

// operations is the part of the API the service has.
var operations = map[string]operation{
	"CreateStream":                  plain[createStream](),
	"DeleteStream":                  plain[deleteStream](),
	"DescribeStream":                plain[describeStream](),
	"DescribeStreamSummary":         plain[describeStreamSummary](),
	"DescribeLimits":                plain[describeLimits](),
	"ListStreams":                   plain[listStreams](),
	"ListShards":                    plain[listShards](),
	"PutRecord":                     {parse: parsePutRecord},
	"PutRecords":                    {parse: parsePutRecords},
	"GetShardIterator":              plain[getShardIterator](),
	"GetRecords":                    {parse: parseGetRecords},
	"SplitShard":                    plain[splitShard](),
	"MergeShards":                   plain[mergeShards](),
	"UpdateShardCount":              plain[updateShardCount](),
	"UpdateMaxRecordSize":           plain[updateMaxRecordSize](),
	"IncreaseStreamRetentionPeriod": plain[increaseRetention](),
	"DecreaseStreamRetentionPeriod": plain[decreaseRetention](),
	"RegisterStreamConsumer":        plain[registerConsumer](),
	"DescribeStreamConsumer":        plain[describeConsumer](),
	"ListStreamConsumers":           plain[listConsumers](),
	"DeregisterStreamConsumer":      plain[deregisterConsumer](),
	"SubscribeToShard":              plain[subscribe](),
}
