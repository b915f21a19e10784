// Package test has the system tests: the library through its public API over HTTP, against the embedded Kinesis and two emulators that others wrote. The
// embedded service is in kinesistest, the probe for actors in probe, the emulators in emulators, the checker of the long random run in soak,
// and that of what a publisher said in published.
//
// # Reports
//
// What has gone wrong with consumers of Kinesis elsewhere, and the tests that show it does not here. R is about resharding, L leases, C
// checkpoints, I iterators, G reading, S streams, E enhanced fan-out, K aggregated records, P publishing, D the end, memory and clocks.
// TestEveryReportHasATest keeps this table (go test ./test -run TestEveryReportHasATest -update).
//
//	R1  A child that is opened at the tip loses the records written before it was found.
//	    actors: TestAnyHistory TestChildOfATipShardStartsAtTheHorizon TestChildrenFoundLateAreReadFromTheirFirstRecord TestRelaxedOrderingAfterTheTip TestTipWithoutLoss
//	R2  The tip is asked for again after a failure, and what came between is skipped.
//	    actors: TestASeekToTheTipOnSeveralNodes TestExpiredIterator TestTipIsPinned TestTipWithoutLoss
//	R3  An idle shard asks for the same old instant for ever.
//	    actors: TestIdleShardMovesOn
//	    test: TestIdleShardMovesOnWithFanOut
//	R4  Children are read beside their parent, and a key's records come out of order.
//	    actors: TestALostPageDoesNotFreeChildrenOfAParentReadElsewhere TestAnyHistory TestAnyHistoryOfAFleet TestChildrenWaitForTheParentAndStartAtOnce TestRecordsOfAKeyStayInOrderAcrossASplit TestReshardsOnSeveralNodes
//	R5  A closed parent is skipped at the start though its records are retained.
//	    actors: TestAnyHistory TestClosedParentIsReadFirst TestShardsClosedBeforeTheTipAreOutOfScope
//	R6  Children wait for a parent that has passed the retention.
//	    actors: TestAHoleThatStaysDoesNotHoldUpTheChildrenOfALostShard TestATrimmedParentIsToldAndItsChildrenAreRead TestAudit TestParentTrimmedOutOfTheListing TestShardVanishesUnderItsReader TestTheLeaseOfALostShardIsRemovedOnceTold TestTheLeaseOfALostShardStaysWhileItsOwnerLives
//	R7  Two generations have passed the retention and only grandchildren are left.
//	    actors: TestLineageOfGrandchildren TestOnlyLaterGenerationsAreLeft
//	R8  A merged child starts after the first of its two parents, or never.
//	    actors: TestAParentWithALiveLeaseIsWaitedForThoughAListingLacksIt TestAnyHistory TestMergedChildOfParentsOnTwoNodes TestMergedChildWaitsForAParentThatIsNotListedYet TestMergedChildWaitsForBothParents TestMergedChildWithAVanishedParent TestOneListingThatLackedAParentKeepsTheOrder TestReshardsOnSeveralNodes
//	R9  A closed shard without records never ends.
//	    actors: TestEmptyClosedShardEnds TestEmptyShardsEnd
//	R10  A closed shard whose checkpoint is its last record never ends.
//	    actors: TestShardWithACheckpointAtItsLastRecordEnds
//	R11  SHARD_END is stored before what is in flight is settled.
//	    actors: TestANodeDiesAtAShardsEnd TestAnyHistory TestChildrenWaitForTheParentAndStartAtOnce TestLastSettlementEndsTheShard TestNoShardEndBeforeAllIsSettled
//	R12  A late checkpoint replaces SHARD_END, and the children wait for ever.
//	    actors: TestCheckpointThatLandsAfterShardEnd TestLateCheckpointDoesNotReplaceShardEnd
//	R13  The user must end a shard by hand and forgets it.
//	    actors: TestLastSettlementEndsTheShard
//	R14  The next iterator is missing, null or empty.
//	    actors: TestNoNextIterator
//	R15  GetShardIterator answers without an iterator.
//	    actors: TestNoIterator
//	R16  An open shard is answered once without a next iterator and counts as finished.
//	    actors: TestNoNextIterator TestNoNextIteratorForEver TestShardClosedAfterASpuriousNullIterator TestShardIsReadOnWhenItClosedAfterTheLastPage TestSpuriousNullIteratorInAClosedShard TestSpuriousNullIteratorOnAClosedShard TestSpuriousNullIteratorOnAnOpenShard
//	R17  Finished shards are leased first and open ones starve.
//	    actors: TestFinishedShardsAreNeverStarted TestFinishedShardsDoNotKeepOpenOnesWaiting
//	R18  Finished shards count against a limit of leases. There is no such limit; they are never leased.
//	    actors: TestFinishedShardsAreNeverStarted
//	R19  A stale listing brings a finished shard back, and its lineage is read again.
//	    actors: TestALeaseIsRemovedOnlyAsItWasSeen TestAStaleListingAfterTheLeaseWasRemoved TestLeasesAreRetiredAfterStartingOver TestLeasesOfTrimmedShardsStayWithoutProof TestLeasesStayWhenTheListingProvesNothing TestLineageReadsEverythingOnceInOrder TestListingsThatLackedAShardCostNothing TestRetirable TestStaleListingDoesNotBringAFinishedShardBack
//	R20  A listing lacks shards and nobody notices the hole in the hash keys.
//	    actors: TestAHoleThatStaysDoesNotHoldUpTheChildrenOfALostShard TestAHoleThatStaysIsToldOnce TestAHoleWhileUpdatingIsNotTold TestALostPageDoesNotFreeChildrenOfAParentReadElsewhere TestALostPageIsListedAgainSoon TestAParentWithALiveLeaseIsWaitedForThoughAListingLacksIt TestAudit TestAuditFindsEveryOpenShardThatIsMissing TestAuditNeverAlarmsACompleteListing TestListingsThatLackedAShardCostNothing TestOneListingThatLackedAParentKeepsTheOrder
//	R21  The end of one shard ends the reading of all.
//	    actors: TestEndOfOneShardLeavesTheOthersAlone
//	R22  Nothing is read after a reshard until a restart.
//	    actors: TestAnyHistory TestChildrenFoundLateAreReadFromTheirFirstRecord TestShardsAreDiscoveredByTheListingAlone
//	R23  A shard that closed counts as another shard and is read again.
//	    actors: TestDoubtsAboutAListing TestShardIdentityIsItsID TestShardThatClosedMeanwhileGoesOnAtItsCheckpoint
//	R24  Only the first page of a listing is read, or its token is used wrongly.
//	    actors: TestListingHasPages TestListingsOfManyPages TestPartOfAListingIsNotAllOfIt
//	    test: TestListingsOfManyPages
//	R25  One failing shard keeps all others from starting.
//	    actors: TestOneFailingShardDoesNotKeepOthersFromStarting
//	R26  Users who need no order want children read at once.
//	    actors: TestLineageReadsEverythingOnceInOrder TestRelaxedLineage TestRelaxedOrderingAcrossASeek TestRelaxedOrderingAfterTheTip TestRelaxedOrderingDoesNotSkipAParentWithoutALease TestRelaxedOrderingReadsChildrenBesideTheirParent TestRelaxedOrderingSeesTheLeaseOfAParentSoon
//	    cmd/protokinesis: TestConsumeOrdering
//	R27  A filter of the listing is ignored by the service.
//	    actors: TestAListingWithMoreThanNeededChangesNothing TestFinishedShardsDoNotKeepOpenOnesWaiting TestListingHasPages
//	L1  A slow handler delays renewals, and the lease is lost.
//	    actors: TestABlockedHandlerKeepsItsLease TestASlowSubscriberDoesNotDelayRenewals
//	L2  A node takes a shard over from itself.
//	    actors: TestANodeDoesNotStealFromItself
//	L3  A write of the lease is stored and its reply lost.
//	    actors: TestALeaseIsGivenAwayAfterALostReply TestEachWriteOfAHandoverGoesWrong TestLostRepliesOfTheStore
//	    leasestore: TestConfirmLostReply
//	    leasestore/dynamodb: TestLostRepliesAreConfirmed
//	L4  Renewals and checkpoints of one lease fence each other.
//	    actors: TestRenewalsAndCheckpointsDoNotFenceEachOther
//	L5  A lease is owned and nobody reads its shard.
//	    actors: TestAShardIsReadAgainAfterAnOutage TestReaderStoppedByForceIsReplaced
//	L6  Expiry is judged by wall clocks, which differ.
//	    leasestore: TestTakeoverWithinTTLAndOneScan
//	    test: TestFailover
//	L7  A node that stops in order leaves its shards unread until its leases expire.
//	    actors: TestADeadNodesShardsAreReadAgainInTime TestANodeDiesAtAShardsEnd TestAnyHistoryOfAFleet TestNodesJoinAndLeave
//	    test: TestFailover
//	L8  A handover is asked for before the shard has been opened.
//	    actors: TestAShardIsHandedOverBeforeItIsOpen
//	L9  A shard is taken from a live node, and what was in flight comes twice.
//	    actors: TestASlowHandlerIsWaitedFor TestAnyHistoryOfAFleet TestNodesJoinAndLeave TestRecordsInFlightThatNeverSettle TestWhatWaitsBehindItsKeyIsDeliveredBeforeAHandover
//	    test: TestFailover
//	L10  One node takes many shards at once, on stale counters.
//	    actors: TestAssignEveryInterleaving
//	L11  Nodes that start together fall over each other.
//	    actors: TestNodesThatStartWithinTheGatherTime
//	    test: TestFailover
//	L12  A lease without a checkpoint.
//	    actors: TestLineage TestSentinelsAreNotSequenceNumbers
//	    leasestore/dynamodb: TestNoCheckpointIsOneWhateverTheWord
//	L13  Two nodes of one name.
//	    actors: TestNodesOfOneNameAreTwoOwners
//	L14  Two nodes start the same new shard.
//	    actors: TestAssignEveryInterleaving
//	L15  Shards of one id in two streams.
//	    actors: TestShardsOfOneIDInTwoStreams TestStreamsAreSharedIndependently
//	L16  A release that is refused is tried for ever.
//	    actors: TestEachWriteOfAHandoverGoesWrong
//	L17  The row of a lease is deleted while its shard is read.
//	    actors: TestDeletedRowIsMadeAnewWhereItWas TestDeletedRowOfAFinishedShard TestDeletedRowOfAnotherNode
//	L18  One failed renewal gives the lease up.
//	    actors: TestSelfFencing
//	    leasestore/dynamodb: TestThrottledRequestsAreTriedAgain
//	L19  Rows of finished shards are kept for ever.
//	    actors: TestFirstTenThatAreNotProvenDoNotHoldUpTheRest TestLeasesOfTrimmedShardsAreRemoved TestRetirable
//	L20  A node that stood still goes on when another has its shard.
//	    actors: TestANodeCutOffFromTheStoreStopsBeforeAnotherBegins TestAZombieDeliversAndWritesNothing TestAZombieInAHandover TestAnyHistoryOfAFleet TestFencedReaderStopsWithoutCheckpoint
//	    test: TestFailover
//	C1  Settlements out of order move the checkpoint too far, or back.
//	    actors: TestCheckpointIsTheWatermark TestCrashAfterSettlementsOutOfOrder TestWatermarkIsTheSettledPrefix
//	C2  The checkpoint covers records that are only queued.
//	    actors: TestAckOfAllSettlesOnlyWhatIsInFlight TestCheckpointDoesNotCoverWhatIsQueued
//	C3  A record whose handler fails is skipped.
//	    actors: TestAFailingHandlerSkipsNothing
//	    test: TestHandlerFailures
//	C4  The checkpoints of one shard hold up those of others.
//	    actors: TestAHangingWriteDelaysNoOtherShard
//	C5  An empty page resets how far may be checkpointed.
//	    actors: TestAnEmptyPageMovesNoCheckpoint
//	C6  Sequence numbers are compared as text.
//	    actors: TestPageDropsRepeatedRecords
//	    leasestore: TestCompareSequence
//	C7  Words such as TRIM_HORIZON are taken for sequence numbers.
//	    actors: TestSentinelsAreNotSequenceNumbers
//	    leasestore/dynamodb: TestNoCheckpointIsOneWhateverTheWord
//	C8  A closed shard's ending sequence number is none.
//	    actors: TestAnEndingSequenceNumberThatIsNone
//	C9  A checkpoint within an aggregated record.
//	    actors: TestCheckpointWithinAnAggregatedRecord TestPlaces
//	    test: TestConsumerGoesOnWithinAnAggregatedRecord
//	C10  A stored checkpoint is used instead of the configured position, and nobody knows why.
//	    actors: TestTheLogSaysWhatDecidedTheStart
//	C11  Every record costs a write.
//	    actors: TestCheckpointsAreCoalesced TestTenThousandSettlementsAreThreeWrites
//	C12  Two writers of one checkpoint.
//	    actors: TestTwoWritersOfOneRow
//	I1  After an expired iterator reading begins anew at the start.
//	    actors: TestExpiredIterator TestExpiredIteratorWithinAnAggregatedRecord TestIteratorThatExpiredUnderASlowSubscriber TestIteratorsThatFail
//	    test: TestReadingThroughABadNetwork
//	I2  An expired iterator is sent again.
//	    actors: TestAnExpiredIteratorIsSentOnce
//	    test: TestIteratorsThatGoBad
//	I3  An expired iterator is answered as an internal error.
//	    actors: TestAnIteratorThatFailsForEverIsReplaced TestIteratorsThatFail
//	    test: TestIteratorsThatGoBad
//	I4  A checkpoint that is not of the shard, or whose record was trimmed.
//	    actors: TestACheckpointThatIsNotOfTheShard TestACheckpointWhoseRecordWasTrimmed TestAClosedShardWhoseCheckpointIsRefusedIsNotFinished
//	    test: TestForeignCheckpoint
//	I5  An instant that the service takes for the future.
//	    actors: TestATipThatTheServiceTakesForTheFuture TestAnInstantOfTheFuture TestInstantToAsk
//	    test: TestStartInTheFuture
//	I6  A parameter of the position is not sent.
//	    actors: TestWhatIsAskedOfGetShardIterator
//	I7  Records at or before the last one read come again.
//	    actors: TestPageDropsRepeatedRecords TestRecordsThatComeAgain
//	I8  AT_TIMESTAMP brings everything.
//	    actors: TestATimestampThatBringsEverything TestArrivedSince
//	G1  Empty pages while there is more to read.
//	    actors: TestEmptyPagesAtThePaceOfTheService TestEmptyPagesWhileBehind
//	G2  More than five calls per second and shard.
//	    actors: TestIteratorsThatExpireForEver TestManySeeksKeepThePace TestPacerInAnySecond TestThePaceHoldsFromReaderToReader
//	G3  Throttles after a page of 10 MiB.
//	    actors: TestReadingAtTheQuota TestThrottleAfterALargePage TestThrottlePause TestThrottles
//	G4  An error of the service is not recognised as it is wrapped.
//	    actors: TestClassify
//	G5  A reader ends at a throttle.
//	    actors: TestThrottles TestThrottlesForLong
//	G6  Retries of the SDK times retries of the reader.
//	    actors: TestMinutesOfFailures TestTransientFailures
//	G7  One failing shard spends the retries of all others.
//	    actors: TestOneBrokenShardDoesNotSlowTheOthers
//	G8  LimitExceededException is no throttle to some.
//	    actors: TestClassify TestEventWithoutSequenceNumber TestThrottledListingsDelayTheOpening TestThrottlesForLong
//	G9  A call that is never answered.
//	    actors: TestAHungReadDoesNotDelayRenewals TestClassify
//	    test: TestConnectionsThatFail TestReadingThroughABadNetwork
//	G10  Connections that break in the middle of an answer.
//	    actors: TestAnswersThatAreNone TestClassify
//	    test: TestConnectionsThatFail TestReadingThroughABadNetwork
//	G11  A missing permission looks like an iterator that expires for ever.
//	    actors: TestDeniedAtTheOpening TestFailuresThatAPersonMustSolve
//	G12  Calls go on after the end.
//	    actors: TestNoCallsAfterTheEnd
//	G13  Errors of the key service, which pass or which do not.
//	    actors: TestClassify TestFailuresThatAPersonMustSolve TestThrottles
//	G14  A limit above 10,000.
//	    actors: TestDescriptorFieldsThatAreWrong
//	G15  Error codes in all the places they come in, and huge error bodies.
//	    actors: TestAnswersThatAreNone TestClassify TestWhereTheErrorCodeStands
//	S1  The stream is deleted and created again under its name.
//	    actors: TestALostPageIsNoOtherStream TestARecreatedStreamIsStillOneStream TestASeekIsAnsweredWhileStartingOverFails TestDoubtsAboutAListing TestForcedStopWhileTheEndIsTold TestLeasesAreRetiredAfterStartingOver TestRecreatedUnderAnOpenSubscription TestRecreatedWhileStopped TestResetUnderAnOpenSubscription TestSeeksAreFollowedAfterStartingOver TestStartAtASequenceOfARecreatedStream TestStartAtASequenceOfAnUnknownShardOfARecreatedStream TestStartingOverThroughFaults TestUnsubscribeWhileTheEndIsTold TestWaitingForADeletedStream
//	    test: TestConsumerOfAStreamThatWasCreatedAgain TestStreamIsCreatedAgainUnderItsConsumer
//	S2  The stream is deleted while it is read.
//	    actors: TestLeasesStayWhenTheListingProvesNothing TestListingsThatFailForMinutes TestStreamGoneUnderASubscription
//	S3  More describing than an account may do.
//	    actors: TestTheDescribeBudget
//	S4  Listings fail for ever and the end is not seen.
//	    actors: TestListingsThatFailForMinutes TestListingsThatFailFromTheStart TestTakeoverWhileListingsHang
//	S5  A shard and the listing fail at the same time, and the end hangs.
//	    actors: TestAPanicDuringAnOutage TestEverythingFailsAtOnce
//	S6  An ARN instead of a name.
//	    actors: TestTheARNIsSentEverywhere
//	S7  Credentials expire.
//	    actors: TestCredentialsThatComeLate TestCredentialsThatExpire
//	    test: TestRotatedCredentials
//	S8  No region is configured.
//	    test: TestNoRegion
//	S9  LocalStack answers half a second late unless told not to; not tested: it is not used here.
//	E1  A subscription to a shard ends after five minutes.
//	    test: TestEnhancedFanOut
//	K1  A user record whose hash key lies outside the shard.
//	    actors: TestAggregatedRecordsOfAWrongShardAreSentAgain TestShardStopsBeforeAStray TestStrayUserRecords TestStraysAreDropped
//	K2  An aggregated record with a wrong checksum.
//	    actors: TestWhatOnlyLooksAggregatedIsPlain
//	    internal/kpl: TestWhatIsNoAggregateIsPlain
//	K3  Plain data that begins like an aggregated record.
//	    actors: TestWhatOnlyLooksAggregatedIsPlain
//	    internal/kpl: TestWhatIsNoAggregateIsPlain
//	K4  An aggregated record that failed is made anew with others, in another order.
//	    actors: TestPublishUnderFaults
//	K5  The size of an aggregated record is misjudged.
//	    internal/kpl: TestBuilderSizeIsExact TestDeaggregatorReadsWhatIsBuilt
//	K6  An explicit hash key that is none.
//	    internal/kpl: TestHashOfAUserRecord
//	K7  The shard map is old after a reshard, and is listed anew in a storm.
//	    actors: TestAggregatedRecordsOfAWrongShardAreSentAgain
//	    test: TestPublishingThroughAStorm
//	K8  An aggregated record that points nowhere, or holds nothing.
//	    internal/kpl: TestUnknownFieldsArePassedOver TestWhatIsNoAggregateIsPlain
//	P1  Failed entries of a request are passed over.
//	    actors: TestPartialFailuresKeepTheOrderOfAKey TestPublishUnderFaults
//	    test: TestPublishingThroughAStorm
//	P2  A whole request is sent again for one failed entry.
//	    actors: TestPartialFailuresKeepTheOrderOfAKey TestPublishUnderFaults
//	    test: TestPublishingThroughAStorm
//	P3  Retries change the order of a key's records.
//	    actors: TestOutboxRetriesBeforeLaterRecordsOfTheKey TestPartialFailuresKeepTheOrderOfAKey TestPublishUnderFaults
//	    test: TestPublishingThroughAStorm
//	P4  A limit of records, bytes or keys is counted otherwise than by the service.
//	    test: TestRequestsAreNoLargerThanTheServiceTakes TestSizesThatAreJustPossible
//	P5  One faulty record fails the request of all others.
//	    actors: TestOutboxFindsTheFaultyRecord
//	    test: TestPublishingThroughAStorm
//	P6  A partition key that is empty or too long fails the whole request.
//	    test: TestSizesThatAreJustPossible
//	P7  What waits to be published fills the memory.
//	    actors: TestBoundsOfWhatIsPublished
//	P8  The end drops what was not sent yet.
//	    actors: TestShutdownAnswersEveryPublish
//	P9  A time-out after sending: the record may be stored or not.
//	    actors: TestPublishUnderFaults TestWhatHungIsTriedAgainBeforeItsDeadline
//	    test: TestPublishingThroughAStorm
//	P10  A record waits for ever and nobody is told.
//	    actors: TestDeadlinesAreKept
//	P11  A hot shard holds up the others.
//	    actors: TestAThrottledShardDoesNotSlowTheOthers
//	P12  Random keys are not spread evenly.
//	    actors: TestRandomKeysAreSpreadEvenly
//	P13  An answer with more or fewer entries, or an error code that nobody knows.
//	    actors: TestAnswersToPutRecordsThatMakeNoSense
//	    test: TestPublishingThroughAStorm
//	P14  Every entry fails, for ever.
//	    actors: TestDeadlinesAreKept
//	D1  A handler is called after the end.
//	    actors: TestNoHandlerStartsAfterTheEnd TestNothingIsDeliveredOnceTheEndHasBegun
//	    test: TestNoHandlerAfterShutdown
//	D2  Shutdown before a start, after one that failed, twice, and at the same time.
//	    actors: TestShutdownAtAnyTime
//	    test: TestEndInTheMiddleOfEverything
//	D3  Shutdown hangs.
//	    actors: TestShutdownWhenEverythingHangs TestShutdownWithAShardThatCannotBeOpened
//	    test: TestShutdownWithHangingHandler
//	D4  Shutdown while a shard ends.
//	    actors: TestShutdownAroundAShardsEnd
//	D5  A reader is dead and its lease renewed.
//	    actors: TestADeadReaderRenewsNothing TestAShardIsReadAgainAfterAnOutage
//	D6  What is read ahead fills the memory.
//	    actors: TestAHundredShardsStopReading TestAShardHoldsItsWindowAndAPage TestShardsHoldABudgetTogether
//	D7  The lag shows 0 where it is not known.
//	    actors: TestLagOfAShardThatIsNotRead TestLags
//	D8  The service's lag is missing or nonsense.
//	    actors: TestLags
//	D9  The log fills up.
//	    actors: TestMinutesOfFailures TestThrottlesForLong
//	D10  The clock goes back.
//	    actors: TestTheServicesClockGoesBack
//	D11  An actor panics while it stops.
//	    actors: TestPanicAnywhere TestPanicAnywhereInAHandover TestPanicWhenForgotten
//	D12  Everything at the same time.
//	    actors: TestEverythingAtOnce
//	    test: TestEndInTheMiddleOfEverything
//	D13  Idle shards cost goroutines.
//	    actors: TestIdleShardsCostNoGoroutines TestManyShardsAreNoBurst
//	D14  A mailbox without bound.
//	    actors: TestTheMailboxHoldsNoMoreThanTheWindow
//	D15  An end in order, reader by reader.
//	    actors: TestOrderlyDrainOfTwentyReaders
package test
