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
// # Files
//
//	protocol.go       the SDK's interface, and who decodes what
//	negotiate.go      CBOR, or not
//	body.go           reading bodies, bounds
//	cursor.go         JSON as services write it
//	page.go           GetRecords answers: where their parts lie, and what is made of them
//	receipt.go        PutRecords answers
//	put_request.go    PutRecords requests in JSON
//	cbor_items.go     CBOR as services write it
//	cbor_answers.go   answers in CBOR
//	cbor_json.go      CBOR to JSON
//	cbor_requests.go  requests in CBOR
package wire
