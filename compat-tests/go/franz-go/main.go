// franz-go: producer, assigned consumer, kadm.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"klamm/compat/checks"
)

var ctx = context.Background()

func check(name string, work func(ctx context.Context) error) {
	checks.Check(name, func() error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return work(ctx)
	})
}

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(checks.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	cl, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	return cl
}

func produce(ctx context.Context, topic string, count int, options ...kgo.Opt) error {
	cl := client(options...)
	defer cl.Close()
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{
			Topic:     topic,
			Partition: int32(i % 3),
			Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
			Key:       []byte("k" + strconv.Itoa(i)),
			Value:     []byte("value " + strconv.Itoa(i)),
			Headers:   []kgo.RecordHeader{{Key: "i", Value: []byte(strconv.Itoa(i))}, {Key: "null"}},
		})
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
}

func consume(ctx context.Context, topic string, count int, options ...kgo.Opt) error {
	start := map[int32]kgo.Offset{}
	for p := range int32(3) {
		start[p] = kgo.NewOffset().AtStart()
	}
	cl := client(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}))...)
	defer cl.Close()
	seen := 0
	next := map[int32]int64{}
	for seen < count {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("%d of %d: %w", seen, count, err)
		}
		for _, r := range fetches.Records() {
			i := int(r.Offset)*3 + int(r.Partition)
			if string(r.Value) != "value "+strconv.Itoa(i) || string(r.Key) != "k"+strconv.Itoa(i) || string(r.Headers[0].Value) != strconv.Itoa(i) || r.Headers[1].Value != nil {
				return fmt.Errorf("offset %d of partition %d holds %q", r.Offset, r.Partition, r.Value)
			}
			if r.Offset != next[r.Partition] {
				return fmt.Errorf("offset %d after %d", r.Offset, next[r.Partition]-1)
			}
			next[r.Partition]++
			seen++
		}
	}
	return nil
}

func main() {
	records := checks.Records
	adm := kadm.NewClient(client())
	defer adm.Close()

	check("broker metadata", func(ctx context.Context) error {
		m, err := adm.BrokerMetadata(ctx)
		if err != nil {
			return err
		}
		return checks.Want(len(m.Brokers) == 1 && m.Controller == 1 && m.Cluster != "", "%+v", m)
	})
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	forever := "-1"
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := checks.Prefix + "-" + name
		check(name+" out and in", func(ctx context.Context) error {
			made, err := adm.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &forever}, topic)
			if err != nil {
				return err
			}
			if made.NumPartitions != 3 || made.ID == (kadm.TopicID{}) {
				return fmt.Errorf("%+v", made)
			}
			if err := produce(ctx, topic, records, kgo.ProducerBatchCompression(codecs[name])); err != nil {
				return err
			}
			return consume(ctx, topic, records)
		})
	}
	topic := checks.Prefix + "-none"
	check("read committed", func(ctx context.Context) error {
		return consume(ctx, topic, records, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	})
	check("small fetches without sessions", func(ctx context.Context) error {
		return consume(ctx, topic, min(records, 600), kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1), kgo.DisableFetchSessions())
	})
	check("acks 0 and 1", func(ctx context.Context) error {
		other := checks.Prefix + "-acks"
		if _, err := adm.CreateTopic(ctx, 3, 1, nil, other); err != nil {
			return err
		}
		if err := produce(ctx, other, 30, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()); err != nil {
			return err
		}
		return produce(ctx, other, 30, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	})
	check("offsets", func(ctx context.Context) error {
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		end, _ := ends.Lookup(topic, 0)
		starts, err := adm.ListStartOffsets(ctx, topic)
		if err != nil {
			return err
		}
		first, _ := starts.Lookup(topic, 0)
		after, err := adm.ListOffsetsAfterMilli(ctx, 1_700_000_000_004, topic)
		if err != nil {
			return err
		}
		found, _ := after.Lookup(topic, 0)
		return checks.Want(end.Offset == int64(records+2)/3 && first.Offset == 0 && found.Offset == 2, "%v %v %v", first, end, found)
	})
	check("refusals", func(ctx context.Context) error {
		if _, err := adm.CreateTopic(ctx, 1, 1, nil, topic); !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("exists: %v", err)
		}
		if _, err := adm.CreateTopic(ctx, 1, 9, nil, "x"); !errors.Is(err, kerr.InvalidReplicationFactor) {
			return fmt.Errorf("replication 9: %v", err)
		}
		if _, err := adm.CreateTopic(ctx, 1, 1, nil, "a/b"); !errors.Is(err, kerr.InvalidTopicException) {
			return fmt.Errorf("name: %v", err)
		}
		return nil
	})
	check("configs", func(ctx context.Context) error {
		value := "9000000000000"
		res, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic)
		if err != nil || res[0].Err != nil {
			return errors.Join(err, res[0].Err)
		}
		return checks.Until("the new value", func() (bool, error) {
			described, err := adm.DescribeTopicConfigs(ctx, topic)
			if err != nil {
				return false, err
			}
			return slices.ContainsFunc(described[0].Configs, func(c kadm.Config) bool {
				return c.Key == "retention.ms" && c.MaybeValue() == value
			}), nil
		})
	})
	check("a bad config", func(ctx context.Context) error {
		value := "0"
		res, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.ms", Value: &value}}, topic)
		if err != nil {
			return err
		}
		return checks.Want(errors.Is(res[0].Err, kerr.InvalidConfig), "%v", res[0].Err)
	})
	check("broker configs", func(ctx context.Context) error {
		described, err := adm.DescribeBrokerConfigs(ctx, 1)
		if err != nil {
			return err
		}
		return checks.Want(len(described) == 1 && len(described[0].Configs) > 100, "%d", len(described))
	})
	check("more partitions", func(ctx context.Context) error {
		res, err := adm.UpdatePartitions(ctx, 6, checks.Prefix+"-lz4")
		if err != nil {
			return err
		}
		return res.Error()
	})
	check("delete records", func(ctx context.Context) error {
		var offsets kadm.Offsets
		offsets.AddOffset(topic, 0, 5, -1)
		res, err := adm.DeleteRecords(ctx, offsets)
		if err != nil {
			return err
		}
		deleted, _ := res.Lookup(topic, 0)
		return checks.Want(deleted.Err == nil && deleted.LowWatermark == 5, "%+v", deleted)
	})
	check("log dirs", func(ctx context.Context) error {
		dirs, err := adm.DescribeBrokerLogDirs(ctx, 1, nil)
		if err != nil {
			return err
		}
		return checks.Want(dirs.Size() > 0, "empty")
	})
	check("epoch ends", func(ctx context.Context) error {
		var req kadm.OffsetForLeaderEpochRequest
		req.Add(topic, 0, 0)
		res, err := adm.OffetForLeaderEpoch(ctx, req)
		if err != nil {
			return err
		}
		end := res[topic][0]
		return checks.Want(end.Err == nil && end.LeaderEpoch == 0 && end.EndOffset == int64(records+2)/3, "%+v", end)
	})
	check("delete topics", func(ctx context.Context) error {
		res, err := adm.DeleteTopics(ctx, topic, checks.Prefix+"-gzip", "nowhere")
		if err != nil {
			return err
		}
		return checks.Want(res[topic].Err == nil && errors.Is(res["nowhere"].Err, kerr.UnknownTopicOrPartition), "%+v", res)
	})
	checks.Done()
}
