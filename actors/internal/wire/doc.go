// Package wire is how GetRecords and PutRecords travel: it writes the requests and reads the answers of the SDK's client, which does all the rest,
// signing, endpoints, connections, errors.
//
// In JSON it returns for every answer what the SDK's decoder returns, value or error: it decodes what looks as services write it, and
// hands all else to the SDK. Strings with escapes, members that are unknown or there twice, numbers and times in other forms, null records, child
// shards, what is not JSON at all: these are the SDK's. There are three differences, none of which a service makes: an answer of more than 256 MiB is
// refused, so is one of more than half a million members for which the SDK would need many times its size, and where the SDK panics, over a
// time that is "NaN", there is an error.
//
// CBOR (RFC 8949) is what the SDKs for Java speak with Kinesis. Here too what is out of the ordinary, errors above all, is the SDK's: it is
// translated to the JSON that the service would have sent. A service that does not take CBOR is found out by the first calls; they are made again in
// JSON, as are all calls from then on.
//
// # Ownership
//
// The records of a page, the strings they point to, their texts and their data are four pieces of memory of just the size needed. Who keeps
// a record keeps the page: a sequence number or a key keeps the texts of all, Data keeps all data. Clone what is kept for longer.
// The data of a record can be appended to and changed, its neighbours' stay as they are.
//
// # Figures
//
// Nanoseconds and allocations per record, without a network, each the least of five runs on two cores that were busy with other work: only their
// ratios mean anything.
//
//	                                 SDK            JSON            CBOR      bytes in JSON, CBOR
//	page of 1,000 × 100 bytes    3,380  8.9      745  0.02       748  0.02        293     240
//	page of 1,000 × 512 bytes    6,270  8.9    1,060  0.02     1,040  0.02        841     653
//	page of 10,000 × 512 bytes   7,190  9.0      990  0.002    1,240  0.002       841     653
//	page of 100 × 50 KiB       376,000  8.1   86,100  0.15    46,500  0.15     68,426  51,342
//	receipt for 500 records        970  3.8      390  0.02       410  0.02        111     103
//	request of 500 × 512 bytes   9,220  0.15   1,180  0.002      830  0.002       721     542
//
//	go test ./actors/internal/wire -run '^$' -bench .
//
// Base64, in nanoseconds: the standard library decodes 100 bytes in 198, 512 in 659, 50 KiB in 97,200, and encodes them in 110, 856, 93,600;
// github.com/segmentio/asm/base64 with AVX2 decodes in 65, 200, 8,200 and encodes in 188, 251, 5,200. Four tables of 256 numbers, in Go, decode in
// 91, 655, 53,400. So amd64 has the second, all others the first: there is more in it than in all the rest of the decoding.
//
// # Files
//
//	protocol.go       the SDK's interface, and who decodes what
//	negotiate.go      CBOR, or not
//	body.go           reading bodies, bounds
//	cursor.go         JSON as services write it
//	base64_*.go       base64, by processor
//	page.go           GetRecords answers: where their parts lie, and what is made of them
//	receipt.go        PutRecords answers
//	put_request.go    PutRecords requests in JSON
//	cbor_items.go     CBOR as services write it
//	cbor_answers.go   answers in CBOR
//	cbor_json.go      CBOR to JSON
//	cbor_requests.go  requests in CBOR
package wire
