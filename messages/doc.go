// Package messages is the protocol of the library: what its actors are sent and what they answer. Everything is protobuf, so it works
// across nodes with Proto.Actor remote; importing the package registers the types.
//
//	who         sends                          to            answered by
//	anyone      Connect                        broker        Connected | Error
//	anyone      Shutdown                       broker        Closed
//	anyone      StatusRequest                  broker, sub.  Status | Error (of a whole application)
//	anyone      Subscribe                      broker        Subscribed | Error
//	anyone      Seek                           broker, sub.  Sought | Error
//	anyone      Unsubscribe                    sub.          Unsubscribed | Error
//	anyone      Publish                        broker        Published | Error
//	anyone      PublishBatch                   broker        PublishedBatch | Error
//	reader      Delivery, DeliveryBatch        subscriber    Settle (what their Ack, Drop, Retry, RetryAfter return)
//	sub.,reader SubscriptionError              subscriber    –
//	broker      Hint                           other brokers –
//
// sub. is a subscription's coordinator, whose PID is in Subscribed. Every request is answered exactly once, in every state
// of the broker: one that is not connected answers Error with ERROR_KIND_NOT_CONNECTED. What has a correlation carries that of its request.
package messages
