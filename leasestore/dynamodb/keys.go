package dynamodb

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/protokinesis/protokinesis/leasestore"
)

// keys says where a row is. All rows are in one key space, KCL's and ours, of all applications; no two may fall together:
//
//	lease        <account>:<stream>:<epoch>:<shard id>            KCL's, of a stream named by its ARN
//	             protokinesis:<name>:<epoch>:<shard id>           of a stream named otherwise
//	             <shard id>                                       SingleStream, as KCL's with one stream
//	             protokinesis-shard:<shard id>                    SingleStream, if the id is not Kinesis's
//	stream       protokinesis-stream:<what precedes the shard id in a lease's key>
//	member       <id>, as a KCL worker's
//	             protokinesis-member:<id>                         if the id looks like something else
//
// each after "<application>/" if there is one. <epoch> is the stream's creation time in seconds, with three decimals if it is not whole: for Kinesis
// it is. In names and applications what would end them (: / %) is written as in a URL.
//
// A member whose id is written otherwise is nobody whom a KCL leader could give leases to, as a lease's owner is always the id itself.
//
// The stream row has a key of its own, not KCL's stream info's: KCL creates that if it is missing and takes the stream id in it for Kinesis's.
type keys struct {
	prefix string // <application>/
	single bool
}

const (
	prefixOther  = "protokinesis:"
	prefixShard  = "protokinesis-shard:"
	prefixStream = "protokinesis-stream:"
	prefixMember = "protokinesis-member:"
	reserved     = "protokinesis"
	wordShard    = "shardId-"

	// The index of owners has the key as its range key, and those are the shorter.
	maxKey   = 1024
	maxOwner = 2048
)

var (
	streamARN = regexp.MustCompile(`^arn:aws[a-z-]*:kinesis:[a-z0-9-]*:([0-9]+):stream/([a-zA-Z0-9_.-]+)$`)
	// taken is what KCL's rows of other kinds and multi-stream leases are called.
	taken      = regexp.MustCompile(`(?s)^([0-9]+:.*|Leader|Migration3\.0|TableMigration3\.5)$`)
	plainShard = regexp.MustCompile(`^shardId-[0-9]+$`)
	epoch      = regexp.MustCompile(`^(-?)(0|[1-9][0-9]*)(?:\.([0-9]{3}))?$`)

	escape   = strings.NewReplacer("%", "%25", ":", "%3A", "/", "%2F")
	unescape = strings.NewReplacer("%25", "%", "%3A", ":", "%2F", "/")
)

func newKeys(application string, single bool) keys {
	k := keys{single: single}
	if application != "" {
		k.prefix = escape.Replace(application) + "/"
	}
	return k
}

// stream is what a multi-stream lease's key begins with: KCL's stream identifier. It does not tell apart streams of two regions that agree
// in all else; rows do, see ownStream.
func (k keys) stream(id leasestore.StreamID) string {
	if arn := streamARN.FindStringSubmatch(id.Name); arn != nil {
		return arn[1] + ":" + arn[2] + ":" + formatEpoch(id.CreatedMillis)
	}
	return prefixOther + escape.Replace(id.Name) + ":" + formatEpoch(id.CreatedMillis)
}

func (k keys) lease(key leasestore.Key) (string, error) {
	switch {
	case !utf8.ValidString(key.Stream.Name), !utf8.ValidString(key.Shard):
		return "", fmt.Errorf("%w: lease %q: the key is not UTF-8", leasestore.ErrInvalid, key)
	case key.Shard == "":
		return "", fmt.Errorf("%w: lease %s: the shard id is empty", leasestore.ErrInvalid, key)
	case !k.single:
		return k.checked(k.stream(key.Stream) + ":" + key.Shard)
	case plainShard.MatchString(key.Shard):
		return k.checked(key.Shard)
	default:
		return k.checked(prefixShard + key.Shard)
	}
}

// parseLease is the reverse of lease, of a key without the application: the stream ("" if the key does not say) and the shard.
func (k keys) parseLease(key string) (stream, shard string, ok bool) {
	if k.single {
		if other, is := strings.CutPrefix(key, prefixShard); is {
			return "", other, other != "" && !plainShard.MatchString(other)
		}
		return "", key, plainShard.MatchString(key)
	}
	parts := strings.SplitN(key, ":", 4)
	if len(parts) < 4 || parts[3] == "" {
		return "", "", false
	}
	stream = strings.Join(parts[:3], ":")
	id, ok := k.parseStream(stream)
	return stream, parts[3], ok && k.stream(id) == stream
}

// parseStream is the reverse of stream. A stream that KCL named has an ARN without a region.
func (k keys) parseStream(stream string) (leasestore.StreamID, bool) {
	parts := strings.Split(stream, ":")
	if len(parts) != 3 {
		return leasestore.StreamID{}, false
	}
	millis, ok := parseEpoch(parts[2])
	name := unescape.Replace(parts[1])
	if parts[0]+":" != prefixOther {
		name = "arn:aws:kinesis::" + parts[0] + ":stream/" + parts[1]
	}
	return leasestore.StreamID{Name: name, CreatedMillis: millis}, ok
}

func (k keys) state(id leasestore.StreamID) (string, error) {
	if !utf8.ValidString(id.Name) {
		return "", fmt.Errorf("%w: stream %q: the name is not UTF-8", leasestore.ErrInvalid, id)
	}
	return k.checked(prefixStream + k.stream(id))
}

func (k keys) member(id string) (string, error) {
	if strings.HasPrefix(id, reserved) || strings.HasPrefix(id, wordShard) || strings.Contains(id, "/") || taken.MatchString(id) {
		id = prefixMember + id
	}
	return k.checked(id)
}

// parseMember is the reverse of member, of a key without the application.
func (k keys) parseMember(key string) string { return strings.TrimPrefix(key, prefixMember) }

// own cuts the application from a key; ok is false when the row is another application's.
func (k keys) own(key string) (rest string, ok bool) { return strings.CutPrefix(key, k.prefix) }

func (k keys) checked(key string) (string, error) {
	key = k.prefix + key
	if len(key) > maxKey {
		return "", fmt.Errorf("%w: the key %.60q… is longer than the %d bytes that DynamoDB takes", leasestore.ErrInvalid, key, maxKey)
	}
	return key, nil
}

func formatEpoch(millis int64) string {
	sign, abs := "", uint64(millis) //nolint:gosec // the two's complement is undone below
	if millis < 0 {
		sign, abs = "-", -abs
	}
	if abs%1000 == 0 {
		return sign + strconv.FormatUint(abs/1000, 10)
	}
	return fmt.Sprintf("%s%d.%03d", sign, abs/1000, abs%1000)
}

// parseEpoch is the reverse of formatEpoch; what that would not write is not ok.
func parseEpoch(s string) (millis int64, ok bool) {
	parts := epoch.FindStringSubmatch(s)
	if parts == nil {
		return 0, false
	}
	fraction := parts[3]
	if fraction == "" {
		fraction = "000"
	}
	millis, err := strconv.ParseInt(parts[1]+parts[2]+fraction, 10, 64)
	return millis, err == nil && formatEpoch(millis) == s
}
