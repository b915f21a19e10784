package wire

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// front stands before a service and says what becomes of calls in CBOR; nil: they are let through.
type front struct {
	*tap

	mu     sync.Mutex
	answer func(op string) *smithyhttp.Response
}

// Do implements kinesis.HTTPClient.
func (f *front) Do(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	answer := f.answer
	f.mu.Unlock()
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if answer != nil && r.Header.Get("Content-Type") == cborType {
		if a := answer(op); a != nil {
			f.tap.mu.Lock()
			defer f.tap.mu.Unlock()
			f.answers = append(f.answers, tapped{op: op, asked: cborType, status: a.StatusCode})
			return a.Response, nil
		}
	}
	return f.tap.Do(r)
}

func (f *front) becomes(answer func(op string) *smithyhttp.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func always(status int, contentType, body string) func(string) *smithyhttp.Response {
	return func(string) *smithyhttp.Response { return answerOf(status, contentType, []byte(body)) }
}

// asked is the formats of the calls since the last look.
func (f *front) asked() string {
	var all []string
	for _, a := range f.seen() {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(a.asked, "application/x-amz-"), "-1.1"))
	}
	return strings.Join(all, " ")
}

// foreignAnswers are how services answer that don't know CBOR.
var foreignAnswers = map[string]func(string) *smithyhttp.Response{
	"another media type":   always(http.StatusUnsupportedMediaType, "text/plain", "no"),
	"kinesalite of old":    always(http.StatusNotFound, "", "<UnknownOperationException/>\n"),
	"unknown operation":    always(http.StatusBadRequest, jsonType, `{"__type":"UnknownOperationException"}`),
	"unreadable request":   always(http.StatusBadRequest, jsonType, `{"__type":"com.amazon.coral.service#SerializationException"}`),
	"unreadable, in CBOR":  always(http.StatusBadRequest, cborType, "\xa1\x66__type\x76SerializationException"),
	"bad request, no more": always(http.StatusBadRequest, "", ""),
	"not implemented":      always(http.StatusNotImplemented, "text/html", "<html>"),
}

type situation struct {
	server *kinesistest.Server
	front  *front
	client *kinesis.Client
	log    *bytes.Buffer
	stream string
	at     *string
}

func newSituation(t *testing.T) *situation {
	t.Helper()
	s := &situation{server: kinesistest.Start(t), front: &front{tap: newTap(t)}, log: new(bytes.Buffer), stream: "orders"}
	require.NoError(t, s.server.CreateStream(s.stream, 1))
	s.client = clientOf(s.server.URL(), s.front, &Options{CBOR: true, Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	s.at = iterator(t, s.client, &s.stream)
	require.Equal(t, "json", s.front.asked()) // of the iterator
	return s
}

func (s *situation) get(t *testing.T) (*kinesis.GetRecordsOutput, error) {
	t.Helper()
	return s.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: s.at})
}

func (s *situation) put(t *testing.T) error {
	t.Helper()
	out, err := s.client.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &s.stream, Records: []types.PutRecordsRequestEntry{
		{Data: []byte("x"), PartitionKey: aws.String("k")},
	}})
	if err == nil {
		require.Zero(t, *out.FailedRecordCount)
	}
	return err
}

func TestAServiceThatDoesNotTakeCBORIsSpokenToInJSON(t *testing.T) {
	for name, answer := range foreignAnswers {
		t.Run(name, func(t *testing.T) {
			s := newSituation(t)
			s.front.becomes(answer)
			require.NoError(t, s.put(t))
			assert.Equal(t, "cbor json", s.front.asked())
			page, err := s.get(t)
			require.NoError(t, err)
			require.Len(t, page.Records, 1)
			require.NoError(t, s.put(t))
			assert.Equal(t, "json json", s.front.asked())
			assert.Equal(t, 1, strings.Count(s.log.String(), "does not take CBOR"))
			assert.Len(t, s.server.Records(s.stream), 2)
		})
	}
}

// Many calls find it out at the same time: each is made again, it is logged once.
func TestCallsAtTheSameTimeFindOutTogether(t *testing.T) {
	s := newSituation(t)
	s.front.becomes(foreignAnswers["unknown operation"])
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := s.get(t)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, 1, strings.Count(s.log.String(), "does not take CBOR"))
}

// A service that breaks down over CBOR may have stored what it was given: only reads are made again.
func TestAWriteOverWhichTheServiceBreaksDownIsNotMadeAgain(t *testing.T) {
	s := newSituation(t)
	s.front.becomes(always(http.StatusInternalServerError, "text/html", "<html>"))
	require.Error(t, s.put(t))
	assert.Equal(t, "cbor", s.front.asked())
	_, err := s.get(t)
	require.NoError(t, err)
	assert.Equal(t, "cbor json", s.front.asked())
	require.NoError(t, s.put(t))
	assert.Equal(t, "json", s.front.asked())
}

// A service that has taken CBOR once is not suspected any more.
func TestAServiceThatTookCBORIsNotSuspected(t *testing.T) {
	s := newSituation(t)
	require.NoError(t, s.put(t))
	for name, answer := range foreignAnswers {
		s.front.becomes(answer)
		_, err := s.get(t)
		require.Error(t, err, name)
		require.Error(t, s.put(t), name)
	}
	s.front.becomes(nil)
	_, err := s.get(t)
	require.NoError(t, err)
	assert.NotContains(t, s.front.asked(), "json")
	assert.Empty(t, s.log.String())
}

// What a service says of its own is not about the format.
func TestAnErrorOfTheServicesOwnIsNotAboutTheFormat(t *testing.T) {
	s := newSituation(t)
	for _, code := range []string{"ResourceNotFoundException", "ProvisionedThroughputExceededException", "AccessDeniedException", "InternalFailure"} {
		s.server.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Error(code, "?"))
		_, err := s.get(t)
		require.ErrorContains(t, err, code)
	}
	_, err := s.get(t)
	require.NoError(t, err)
	assert.Equal(t, "cbor cbor cbor cbor cbor", s.front.asked())
}

// Where nothing answers as Kinesis does, nothing is settled.
func TestAServiceThatUnderstandsNothingSettlesNothing(t *testing.T) {
	s := newSituation(t)
	s.front.becomes(always(http.StatusNotFound, "text/html", "<html>"))
	s.server.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Body(http.StatusNotFound, []byte("<html>")))
	_, err := s.get(t)
	require.Error(t, err)
	s.server.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Reset())
	_, err = s.get(t)
	require.Error(t, err)
	assert.Empty(t, s.log.String())
	s.front.seen()
	s.front.becomes(nil)
	_, err = s.get(t)
	require.NoError(t, err)
	assert.Equal(t, "cbor", s.front.asked())
}

// Answers that are CBOR only by name are asked for again; after the third all is JSON. A write is not made again, as it may have been done.
func TestAnswersThatAreNoCBORAreAskedForAgain(t *testing.T) {
	s := newSituation(t)
	_, err := s.get(t)
	require.NoError(t, err)
	s.front.becomes(always(http.StatusOK, cborType, "\xa1\x67Records\x81"))
	for range 2 {
		_, err := s.get(t)
		require.NoError(t, err)
	}
	assert.Equal(t, "cbor cbor json cbor json", s.front.asked())
	require.ErrorIs(t, s.put(t), errCBOR)
	assert.Equal(t, "cbor", s.front.asked())
	require.NoError(t, s.put(t))
	assert.Equal(t, "json", s.front.asked())
	assert.Equal(t, 1, strings.Count(s.log.String(), "does not take CBOR"))
}

// Accidents that are far apart say nothing of the service.
func TestBrokenAnswersAreForgottenWithTheNextGoodOne(t *testing.T) {
	s := newSituation(t)
	for range 3 * mostBroken {
		s.front.becomes(always(http.StatusOK, cborType, "\xa1"))
		_, err := s.get(t)
		require.NoError(t, err)
		require.Equal(t, "cbor json", s.front.asked())
		s.front.becomes(nil)
		_, err = s.get(t)
		require.NoError(t, err)
		require.Equal(t, "cbor", s.front.asked())
	}
}

// An answer may be in JSON all the same, or not say what it is in.
func TestAnAnswerIsInTheFormatThatItSays(t *testing.T) {
	for name, answer := range map[string]func(string) *smithyhttp.Response{
		"JSON":              always(http.StatusOK, jsonType, `{"NextShardIterator":"a"}`),
		"silent, JSON":      always(http.StatusOK, "", `{"NextShardIterator":"a"}`),
		"silent, CBOR":      always(http.StatusOK, "", "\xa1\x71NextShardIterator\x61a"),
		"CBOR with charset": always(http.StatusOK, cborType+"; charset=x", "\xbf\x71NextShardIterator\x61a\xff"),
	} {
		s := newSituation(t)
		s.front.becomes(answer)
		page, err := s.get(t)
		require.NoError(t, err, name)
		assert.Equal(t, "a", *page.NextShardIterator, name)
	}
}

// A client whose protocol is another than this package knows stays as it is.
func TestAnotherProtocolIsLeftAlone(t *testing.T) {
	o := kinesis.Options{}
	Install(&o, Options{CBOR: true})
	assert.Nil(t, o.Protocol)
	assert.Empty(t, o.APIOptions)
}

// Bodies are bounded, also those that say nothing about their length, and those that say too much.
func TestABodyIsBounded(t *testing.T) {
	for name, resp := range map[string]*http.Response{
		"endless":  {StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(endlessReader{})},
		"promised": {StatusCode: http.StatusOK, ContentLength: maxBody + 1, Body: io.NopCloser(strings.NewReader("{}"))},
	} {
		answer := answerOf(http.StatusOK, jsonType, nil)
		answer.Response = resp
		_, err := getRecords.read(&protocol{ClientProtocol: theirs()}, answer)
		require.ErrorIs(t, err, errTooLong, name)
		require.Equal(t, http.NoBody, answer.Body, "the SDK would read it to its end")
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

// What is promised is not made ready before it comes.
func TestAPromisedLengthCostsLittle(t *testing.T) {
	b, err := appendBody(nil, strings.NewReader("{}"), maxBody)
	require.NoError(t, err)
	assert.Equal(t, "{}", string(b))
	assert.LessOrEqual(t, cap(b), firstRoom)
	b, err = appendBody(nil, strings.NewReader(strings.Repeat("x", 5<<20)), 5<<20)
	require.NoError(t, err)
	assert.Len(t, b, 5<<20)
	assert.LessOrEqual(t, cap(b), 5<<20+1)
}

// The SDK would need a call deeper for each member that it does not know, and 64 bytes for each empty record.
func TestAnAnswerOfCountlessMembersIsRefused(t *testing.T) {
	for _, body := range []string{`{` + strings.Repeat(`"a":0,`, maxParts+1) + `"b":0}`, `{"Records":[` + strings.Repeat(`{},`, maxParts+1) + `{}]}`} {
		_, err := getRecords.read(&protocol{ClientProtocol: theirs()}, answerOf(http.StatusOK, jsonType, []byte(body)))
		require.ErrorIs(t, err, errTooLong)
	}
	body := append([]byte("\xbf\x67Records\x9f"), bytes.Repeat([]byte{0xa0}, maxParts+2)...)
	_, _, err := getRecords.readCBOR(append(body, cborBreak, cborBreak))
	require.ErrorIs(t, err, errTooLong)
}
