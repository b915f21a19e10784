// Package kinesistest is an embedded Amazon Kinesis Data Streams service for tests and local
// development. It keeps everything in memory and speaks the wire protocol of the real service, JSON
// 1.1 and CBOR 1.1, so the unmodified AWS SDK talks to it.
//
//	server := kinesistest.Start(t)
//	err := server.CreateStream("orders", 2)
//	client := server.Client()
//
// What it adds to a plain emulator:
//
//   - a clock that tests move ([Clock.Advance]) and that decides everything that depends on time:
//     arrival times, expiry of iterators and tokens, retention, limits, age of subscriptions;
//   - scripted faults ([Service.Fault]): errors, delays, broken connections, partial failures;
//   - a log of the calls it served ([Service.Calls]);
//   - the limits of the real service, when asked for ([WithLimits]).
//
// A record is stored once, in the form in which GetRecords sends it, JSON or CBOR, so that reading a
// page moves memory to the socket without encoding anything. It is turned into the form of its readers
// when they first read it; only where a stream is read in both formats by turns, both are kept. That
// keeps the service far cheaper than the consumer under test, in either format and with ten thousand
// shards, which is what makes it fit for benchmarks.
//
// Lock order: Service.mu, then stream.mu, then shard.mu. No lock is held while bytes travel.
package kinesistest
