// sarama: producers, partition consumers, the cluster admin, as clients of several Kafka versions.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"klamm/compat/checks"
)

const (
	partitions = 3
	// The timestamp of record 0, in milliseconds.
	epoch = 1_700_000_000_000
	// How long one record may be waited for.
	patience = 20 * time.Second
)

var newest = sarama.V3_9_1_0

func config(version sarama.KafkaVersion) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.ApiVersionsRequest = version.IsAtLeast(sarama.V2_4_0_0)
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Flush.Frequency = 10 * time.Millisecond
	c.Consumer.Return.Errors = true
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Net.DialTimeout = patience
	return c
}

// What a record of number i holds in a client of that version.
func message(version sarama.KafkaVersion, topic string, i int) *sarama.ProducerMessage {
	m := &sarama.ProducerMessage{
		Topic:     topic,
		Partition: int32(i % partitions),
		Key:       sarama.StringEncoder("k" + strconv.Itoa(i)),
		Value:     sarama.StringEncoder("value " + strconv.Itoa(i)),
		Timestamp: time.UnixMilli(epoch + int64(i)),
	}
	if version.IsAtLeast(sarama.V0_11_0_0) {
		m.Headers = []sarama.RecordHeader{{Key: []byte("i"), Value: []byte(strconv.Itoa(i))}, {Key: []byte("null")}}
	}
	return m
}

func right(version sarama.KafkaVersion, m *sarama.ConsumerMessage) error {
	i := int(m.Offset)*partitions + int(m.Partition)
	if string(m.Key) != "k"+strconv.Itoa(i) || string(m.Value) != "value "+strconv.Itoa(i) {
		return fmt.Errorf("offset %d of partition %d holds %q", m.Offset, m.Partition, m.Value)
	}
	if version.IsAtLeast(sarama.V0_10_0_0) && m.Timestamp.UnixMilli() != epoch+int64(i) {
		return fmt.Errorf("record %d is of %s", i, m.Timestamp)
	}
	if version.IsAtLeast(sarama.V0_11_0_0) {
		if len(m.Headers) != 2 || string(m.Headers[0].Value) != strconv.Itoa(i) || m.Headers[1].Value != nil {
			return fmt.Errorf("record %d has headers %v", i, m.Headers)
		}
	}
	return nil
}

func send(c *sarama.Config, messages ...*sarama.ProducerMessage) error {
	producer, err := sarama.NewSyncProducer([]string{checks.Bootstrap}, c)
	if err != nil {
		return err
	}
	return errors.Join(sendOver(producer, messages...), producer.Close())
}

// The first of the errors, bare.
func sendOver(producer sarama.SyncProducer, messages ...*sarama.ProducerMessage) error {
	err := producer.SendMessages(messages)
	var all sarama.ProducerErrors
	if errors.As(err, &all) {
		return all[0].Err
	}
	return err
}

func produce(c *sarama.Config, topic string, count int) error {
	var messages []*sarama.ProducerMessage
	for i := range count {
		messages = append(messages, message(c.Version, topic, i))
	}
	return send(c, messages...)
}

// The next record of a partition, within patience.
func next(pc sarama.PartitionConsumer) (*sarama.ConsumerMessage, error) {
	select {
	case m := <-pc.Messages():
		return m, nil
	case err := <-pc.Errors():
		return nil, err
	case <-time.After(patience):
		return nil, errors.New("no record came")
	}
}

// Reads one partition from an offset on, as many records as accept wants.
func read(c *sarama.Config, topic string, partition int32, from int64, accept func(m *sarama.ConsumerMessage) (more bool, err error)) error {
	consumer, err := sarama.NewConsumer([]string{checks.Bootstrap}, c)
	if err != nil {
		return err
	}
	defer consumer.Close()
	pc, err := consumer.ConsumePartition(topic, partition, from)
	if err != nil {
		return err
	}
	defer pc.Close()
	for {
		m, err := next(pc)
		if err != nil {
			return err
		}
		if more, err := accept(m); err != nil || !more {
			return err
		}
	}
}

func consume(c *sarama.Config, topic string, count int) error {
	for p := range int32(partitions) {
		wanted := int64(count+partitions-1-int(p)) / partitions
		var at int64
		err := read(c, topic, p, sarama.OffsetOldest, func(m *sarama.ConsumerMessage) (bool, error) {
			if m.Offset != at {
				return false, fmt.Errorf("offset %d where %d was due", m.Offset, at)
			}
			at++
			return at < wanted, right(c.Version, m)
		})
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

func fails(what string, err, kind error) error {
	return checks.Want(errors.Is(err, kind), "%s: %v", what, err)
}

func main() {
	c := config(newest)
	client, err := sarama.NewClient([]string{checks.Bootstrap}, c)
	if err != nil {
		panic(err)
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		panic(err)
	}
	defer admin.Close()
	// The timestamps are years old.
	forever := "-1"
	create := func(topic string) error {
		configs := map[string]*string{"retention.ms": &forever}
		return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}, false)
	}

	checks.Check("cluster", func() error {
		brokers, controller, err := admin.DescribeCluster()
		return errors.Join(err, checks.Want(len(brokers) == 1 && controller == 1, "%v %d", brokers, controller))
	})
	outAndIn := func(version sarama.KafkaVersion, codec sarama.CompressionCodec) {
		topic := fmt.Sprintf("%s-%s-%s", checks.Prefix, version, codec)
		checks.Check(fmt.Sprintf("%s out and in as %s", codec, version), func() error {
			if err := create(topic); err != nil {
				return err
			}
			c := config(version)
			c.Producer.Compression = codec
			if err := produce(c, topic, checks.Records); err != nil {
				return err
			}
			return consume(c, topic, checks.Records)
		})
	}
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD}
	for _, codec := range codecs {
		outAndIn(newest, codec)
	}
	// Message sets of both formats.
	older := []sarama.KafkaVersion{sarama.V0_8_2_2, sarama.V0_10_2_2}
	if checks.Full {
		older = append(older, sarama.V0_9_0_1, sarama.V0_11_0_2, sarama.V1_1_1_0, sarama.V2_3_1_0, sarama.V2_8_2_0, sarama.V3_6_2_0)
	}
	for _, version := range older {
		for _, codec := range codecs {
			fits := codec != sarama.CompressionLZ4 || version.IsAtLeast(sarama.V0_10_0_0)
			fits = fits && (codec != sarama.CompressionZSTD || version.IsAtLeast(sarama.V2_1_0_0))
			if fits && (checks.Full || codec == sarama.CompressionNone || codec == sarama.CompressionSnappy) {
				outAndIn(version, codec)
			}
		}
	}
	topic := fmt.Sprintf("%s-%s-%s", checks.Prefix, newest, sarama.CompressionNone)
	checks.Check("read by older clients", func() error {
		for _, version := range older {
			if err := consume(config(version), topic, checks.Records); err != nil {
				return fmt.Errorf("%s: %w", version, err)
			}
		}
		return nil
	})
	// Producers of this kind were told of sequences out of order as soon as they sent more than one message.
	checks.Check("idempotent, in one go and one by one", func() error {
		topic := checks.Prefix + "-idempotent"
		if err := create(topic); err != nil {
			return err
		}
		c := config(newest)
		c.Producer.Idempotent = true
		c.Producer.RequiredAcks = sarama.WaitForAll
		c.Net.MaxOpenRequests = 1
		producer, err := sarama.NewSyncProducer([]string{checks.Bootstrap}, c)
		if err != nil {
			return err
		}
		const each = 100
		var messages []*sarama.ProducerMessage
		for i := range each {
			messages = append(messages, message(newest, topic, i))
		}
		err = sendOver(producer, messages...)
		for i := each; err == nil && i < 2*each; i++ {
			err = sendOver(producer, message(newest, topic, i))
		}
		if err := errors.Join(err, producer.Close()); err != nil {
			return err
		}
		// A record too many would stand behind the last.
		if err := consume(c, topic, 2*each); err != nil {
			return err
		}
		for p := range int32(partitions) {
			end, err := client.GetOffset(topic, p, sarama.OffsetNewest)
			wanted := int64(2*each+partitions-1-int(p)) / partitions
			if err := errors.Join(err, checks.Want(end == wanted, "partition %d ends at %d", p, end)); err != nil {
				return err
			}
		}
		return nil
	})
	checks.Check("null and empty", func() error {
		topic := checks.Prefix + "-null"
		if err := create(topic); err != nil {
			return err
		}
		err := send(c,
			&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("v")},
			&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k")},
			&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(""), Value: sarama.StringEncoder("")},
			&sarama.ProducerMessage{Topic: topic})
		if err != nil {
			return err
		}
		want := [][2][]byte{{nil, []byte("v")}, {[]byte("k"), nil}, {{}, {}}, {nil, nil}}
		return read(c, topic, 0, 0, func(m *sarama.ConsumerMessage) (bool, error) {
			w := want[m.Offset]
			same := bytes.Equal(m.Key, w[0]) && bytes.Equal(m.Value, w[1]) && (m.Key == nil) == (w[0] == nil) && (m.Value == nil) == (w[1] == nil)
			return m.Offset < 3, checks.Want(same, "offset %d: %q %q", m.Offset, m.Key, m.Value)
		})
	})
	checks.Check("large", func() error {
		topic := checks.Prefix + "-large"
		if err := create(topic); err != nil {
			return err
		}
		c := config(newest)
		c.Producer.MaxMessageBytes = 8 << 20
		large := func(size int) *sarama.ProducerMessage {
			return &sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(bytes.Repeat([]byte("x"), size))}
		}
		if err := fails("2 MB", send(c, large(2_000_000)), sarama.ErrMessageSizeTooLarge); err != nil {
			return err
		}
		c.Producer.MaxMessageBytes = 1_000_000
		var messages []*sarama.ProducerMessage
		for range 40 {
			messages = append(messages, large(100_000))
		}
		if err := send(c, append(messages, large(900_000))...); err != nil {
			return err
		}
		c.Consumer.Fetch.Default = 1_000
		return read(c, topic, 0, 0, func(m *sarama.ConsumerMessage) (bool, error) {
			return m.Offset < 40, checks.Want(len(m.Value) == 100_000 || m.Offset == 40 && len(m.Value) == 900_000, "%d bytes", len(m.Value))
		})
	})
	checks.Check("acks 0, 1 and all", func() error {
		topic := checks.Prefix + "-acks"
		if err := create(topic); err != nil {
			return err
		}
		for _, acks := range []sarama.RequiredAcks{sarama.WaitForAll, sarama.WaitForLocal, sarama.NoResponse} {
			c := config(newest)
			c.Producer.RequiredAcks = acks
			if err := produce(c, topic, 30); err != nil {
				return err
			}
		}
		return checks.Until("30 records in each partition", func() (bool, error) {
			for p := range int32(partitions) {
				if end, err := client.GetOffset(topic, p, sarama.OffsetNewest); err != nil || end != 30 {
					return false, err
				}
			}
			return true, nil
		})
	})
	checks.Check("offsets by time", func() error {
		end := int64(checks.Records+partitions-1) / partitions
		for _, row := range [][2]int64{{sarama.OffsetOldest, 0}, {sarama.OffsetNewest, end}, {epoch + 4, 2}, {0, 0}, {epoch * 2, -1}} {
			if found, err := client.GetOffset(topic, 0, row[0]); err != nil || found != row[1] {
				return fmt.Errorf("%d is at %d, %v", row[0], found, err)
			}
		}
		return nil
	})
	checks.Check("seek", func() error {
		end := int64(checks.Records+partitions-1) / partitions
		for _, from := range []int64{0, 7, end - 1} {
			err := read(c, topic, 0, from, func(m *sarama.ConsumerMessage) (bool, error) {
				return false, errors.Join(right(newest, m), checks.Want(m.Offset == from, "%d came for %d", m.Offset, from))
			})
			if err != nil {
				return err
			}
		}
		return fails("past the end", read(c, topic, 0, end+1, nil), sarama.ErrOffsetOutOfRange)
	})
	checks.Check("what is not there", func() error {
		err := send(c, &sarama.ProducerMessage{Topic: topic, Partition: 9, Value: sarama.StringEncoder("x")})
		if err := fails("partition 9", err, sarama.ErrInvalidPartition); err != nil {
			return err
		}
		c := config(newest)
		c.Metadata.AllowAutoTopicCreation = false
		c.Metadata.Retry.Max = 0
		return fails("topic", read(c, checks.Prefix+"-nowhere", 0, 0, nil), sarama.ErrUnknownTopicOrPartition)
	})
	checks.Check("refusals", func() error {
		return errors.Join(
			fails("again", create(topic), sarama.ErrTopicAlreadyExists),
			fails("its name", create("a/b"), sarama.ErrInvalidTopic),
			fails("its config", admin.CreateTopic(checks.Prefix+"-bad", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"no.such": &forever}}, false), sarama.ErrInvalidConfig),
			fails("replicas", admin.CreateTopic(checks.Prefix+"-bad", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 9}, false), sarama.ErrInvalidReplicationFactor),
			fails("partitions", admin.CreateTopic(checks.Prefix+"-bad", &sarama.TopicDetail{NumPartitions: 0, ReplicationFactor: 1}, false), sarama.ErrInvalidPartitions),
		)
	})
	checks.Check("configs", func() error {
		resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic}
		for _, value := range []string{"9000000000000", "9000000000001"} {
			var err error
			if value == "9000000000000" {
				err = admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &value}, false)
			} else {
				err = admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
					"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}}, false)
			}
			if err != nil {
				return err
			}
			err = checks.Until("retention.ms="+value, func() (bool, error) {
				entries, err := admin.DescribeConfig(resource)
				return slices.ContainsFunc(entries, func(e sarama.ConfigEntry) bool { return e.Name == "retention.ms" && e.Value == value }), err
			})
			if err != nil {
				return err
			}
		}
		broker, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1"})
		return errors.Join(err, checks.Want(len(broker) > 100, "%d configs of the broker", len(broker)))
	})
	checks.Check("more partitions", func() error {
		if err := admin.CreatePartitions(checks.Prefix+"-acks", 6, nil, false); err != nil {
			return err
		}
		return checks.Until("six", func() (bool, error) {
			described, err := admin.DescribeTopics([]string{checks.Prefix + "-acks"})
			return err == nil && len(described[0].Partitions) == 6, err
		})
	})
	checks.Check("delete records", func() error {
		if err := admin.DeleteRecords(topic, map[int32]int64{0: 5}); err != nil {
			return err
		}
		first, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
		return errors.Join(err, checks.Want(first == 5, "begins at %d", first))
	})
	checks.Check("log dirs", func() error {
		dirs, err := admin.DescribeLogDirs([]int32{1})
		return errors.Join(err, checks.Want(len(dirs[1]) == 1 && len(dirs[1][0].Topics) > 0, "%v", dirs))
	})
	for _, codec := range codecs {
		if checks.Full || codec == sarama.CompressionNone {
			checks.Check(fmt.Sprintf("a restart, %s", codec), func() error { return restart(create, codec) })
		}
	}
	checks.Check("delete topics", func() error {
		if err := admin.DeleteTopic(topic); err != nil {
			return err
		}
		return checks.Until("gone", func() (bool, error) {
			topics, err := admin.ListTopics()
			_, there := topics[topic]
			return !there, err
		})
	})
	checks.Done()
}

// A producer and a consumer that were there before the broker was away go on afterwards.
func restart(create func(string) error, codec sarama.CompressionCodec) error {
	topic := strings.Join([]string{checks.Prefix, "restart", codec.String()}, "-")
	if err := create(topic); err != nil {
		return err
	}
	c := config(newest)
	c.Producer.Compression = codec
	c.Consumer.Return.Errors = false
	producer, err := sarama.NewSyncProducer([]string{checks.Bootstrap}, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	consumer, err := sarama.NewConsumer([]string{checks.Bootstrap}, c)
	if err != nil {
		return err
	}
	defer consumer.Close()
	pc, err := consumer.ConsumePartition(topic, 0, 0)
	if err != nil {
		return err
	}
	defer pc.Close()
	for i := range 2 {
		if i == 1 {
			if err := checks.Restart(); err != nil {
				return err
			}
		}
		if err := sendOver(producer, message(newest, topic, i*partitions)); err != nil {
			return err
		}
		m, err := next(pc)
		if err != nil {
			return err
		}
		if err := errors.Join(right(newest, m), checks.Want(m.Offset == int64(i), "offset %d", m.Offset)); err != nil {
			return err
		}
	}
	return nil
}
