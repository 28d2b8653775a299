import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

/**
 * The Java client: producer, assigned consumer, admin. Compiled against each version it runs with.
 * Arguments: BOOTSTRAP PREFIX RECORDS. Prints "ok NAME" or "FAIL NAME: why" for each check.
 */
public class Client extends Checks {
    static String prefix;
    static int records;

    static void fails(Class<? extends Exception> kind, KafkaFuture<?> future) throws Exception {
        try {
            future.get(30, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            want(kind.isInstance(error.getCause()), error.getCause());
            return;
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }

    static List<RecordMetadata> produce(String topic, int count, String... pairs) throws Exception {
        Properties properties = properties(pairs);
        properties.putIfAbsent("linger.ms", "10");
        List<RecordMetadata> all = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, i % 3, 1_700_000_000_000L + i, "k" + i, i % 10 == 9 ? null : "value " + i);
                record.headers().add("i", Integer.toString(i).getBytes(StandardCharsets.UTF_8)).add("null", null);
                futures.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : futures) all.add(future.get(30, TimeUnit.SECONDS));
        }
        return all;
    }

    static KafkaConsumer<String, String> consumer(String... pairs) {
        Properties properties = properties(pairs);
        properties.put("enable.auto.commit", "false");
        properties.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    static List<TopicPartition> partitions(String topic) {
        return List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1), new TopicPartition(topic, 2));
    }

    static void consume(String topic, int count, String... pairs) {
        try (KafkaConsumer<String, String> consumer = consumer(pairs)) {
            consumer.assign(partitions(topic));
            consumer.seekToBeginning(partitions(topic));
            Set<String> seen = new HashSet<>();
            Map<Integer, Long> next = new HashMap<>();
            long until = System.currentTimeMillis() + 30_000;
            while (seen.size() < count && System.currentTimeMillis() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300))) {
                    int i = Integer.parseInt(new String(record.headers().lastHeader("i").value(), StandardCharsets.UTF_8));
                    want(record.key().equals("k" + i), "key of " + i + " is " + record.key());
                    want(Objects.equals(record.value(), i % 10 == 9 ? null : "value " + i), "value of " + i + " is " + record.value());
                    want(record.headers().lastHeader("null").value() == null, "null header");
                    want(record.offset() == next.getOrDefault(record.partition(), 0L), "offset " + record.offset());
                    next.put(record.partition(), record.offset() + 1);
                    want(seen.add(record.partition() + "-" + record.offset()), "twice");
                }
            }
            want(seen.size() >= count, seen.size() + " of " + count);
        }
    }

    static void until(String what, Callable<Boolean> holds) throws Exception {
        long end = System.currentTimeMillis() + 20_000;
        while (!holds.call()) {
            want(System.currentTimeMillis() < end, what);
            Thread.sleep(50);
        }
    }

    static boolean exists(Admin admin, String topic, int partitions) throws Exception {
        try {
            TopicDescription description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            return description.partitions().size() == partitions && description.partitions().stream().allMatch(p -> p.leader() != null);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof UnknownTopicOrPartitionException) return false;
            throw error;
        }
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        prefix = args[1];
        records = Integer.parseInt(args[2]);
        Admin admin = Admin.create(properties());
        String main = prefix + "-main";

        check("describe cluster", () -> {
            DescribeClusterResult cluster = admin.describeCluster();
            want(cluster.nodes().get().size() == 1, cluster.nodes().get());
            want(cluster.controller().get().id() == 1, cluster.controller().get());
            want(!cluster.clusterId().get().isEmpty(), "no cluster id");
        });
        check("create topics", () -> {
            CreateTopicsResult created = admin.createTopics(List.of(
                new NewTopic(main, 3, (short) 1).configs(Map.of("retention.ms", "-1")),
                new NewTopic(prefix + "-assigned", Map.of(0, List.of(1), 1, List.of(1))),
                new NewTopic(prefix + "-default", Optional.empty(), Optional.empty())));
            created.all().get();
            want(created.numPartitions(main).get() == 3, created.numPartitions(main).get());
            want(created.replicationFactor(main).get() == 1, "replication factor");
            want(created.config(main).get().get("retention.ms").value().equals("-1"), created.config(main).get());
            want(!created.topicId(main).get().equals(Uuid.ZERO_UUID), "no topic id");
            until("the topic", () -> exists(admin, main, 3));
        });
        check("create topics: refusals", () -> {
            fails(TopicExistsException.class, admin.createTopics(List.of(new NewTopic(main, 3, (short) 1))).all());
            fails(InvalidTopicException.class, admin.createTopics(List.of(new NewTopic("a/b", 3, (short) 1))).all());
            fails(InvalidReplicationFactorException.class, admin.createTopics(List.of(new NewTopic(prefix + "-x", 3, (short) 9))).all());
            fails(InvalidPartitionsException.class, admin.createTopics(List.of(new NewTopic(prefix + "-x", 0, (short) 1))).all());
            fails(InvalidConfigurationException.class, admin.createTopics(List.of(new NewTopic(prefix + "-x", 1, (short) 1).configs(Map.of("no.such", "1")))).all());
            admin.createTopics(List.of(new NewTopic(prefix + "-x", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all().get();
            want(!admin.listTopics().names().get().contains(prefix + "-x"), "validate only created it");
        });
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = prefix + "-" + codec;
            check(codec + " out and in", () -> {
                admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "-1")))).all().get();
                until("the topic", () -> exists(admin, topic, 3));
                List<RecordMetadata> written = produce(topic, records, "compression.type", codec);
                want(written.get(0).offset() == 0 && written.get(0).timestamp() == 1_700_000_000_000L, written.get(0));
                consume(topic, records);
            });
        }
        check("acks 0, 1 and all", () -> {
            for (String acks : List.of("0", "1", "all")) produce(prefix + "-default", 0, "acks", acks);
            long before = end(main);
            for (String acks : List.of("1", "all", "0")) produce(main, 300, "acks", acks);
            until("all written", () -> end(main) == before + 900);
        });
        check("read committed, small fetches, sessions", () -> {
            String topic = prefix + "-none";
            consume(topic, records, "isolation.level", "read_committed");
            consume(topic, Math.min(records, 600), "max.partition.fetch.bytes", "200", "fetch.max.bytes", "300", "max.poll.records", "50");
        });
        check("a consumer that waits is woken", () -> {
            try (KafkaConsumer<String, String> consumer = consumer("fetch.max.wait.ms", "10000")) {
                consumer.assign(partitions(main));
                consumer.seekToEnd(partitions(main));
                partitions(main).forEach(consumer::position);
                consumer.poll(Duration.ofMillis(200));
                ExecutorService other = Executors.newSingleThreadExecutor();
                other.submit(() -> produce(main, 1));
                long started = System.currentTimeMillis();
                ConsumerRecords<String, String> got = consumer.poll(Duration.ofSeconds(9));
                want(got.count() == 1 && System.currentTimeMillis() - started < 8000, got.count() + " records");
                other.shutdown();
            }
        });
        check("offsets: begin, end, by time", () -> {
            String topic = prefix + "-none";
            try (KafkaConsumer<String, String> consumer = consumer()) {
                List<TopicPartition> all = partitions(topic);
                want(consumer.beginningOffsets(all).values().stream().allMatch(o -> o == 0), consumer.beginningOffsets(all));
                want(consumer.endOffsets(all).values().stream().mapToLong(o -> o).sum() == records, consumer.endOffsets(all));
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(all.get(0), 1_700_000_000_004L)).get(all.get(0));
                want(found.offset() == 2 && found.timestamp() == 1_700_000_000_006L, found);
                want(consumer.offsetsForTimes(Map.of(all.get(0), 1_900_000_000_000L)).get(all.get(0)) == null, "after the end");
                want(consumer.partitionsFor(topic).size() == 3, "partitions");
                want(consumer.listTopics().containsKey(topic), "listed");
            }
        });
        check("list offsets", () -> {
            TopicPartition p = new TopicPartition(prefix + "-none", 0);
            long count = (records + 2) / 3;
            want(admin.listOffsets(Map.of(p, OffsetSpec.latest())).partitionResult(p).get().offset() == count, "latest");
            want(admin.listOffsets(Map.of(p, OffsetSpec.earliest())).partitionResult(p).get().offset() == 0, "earliest");
            want(admin.listOffsets(Map.of(p, OffsetSpec.maxTimestamp())).partitionResult(p).get().offset() == count - 1, "max timestamp");
            want(admin.listOffsets(Map.of(p, OffsetSpec.forTimestamp(1_700_000_000_001L))).partitionResult(p).get().offset() == 1, "timestamp");
        });
        check("out of range", () -> {
            try (KafkaConsumer<String, String> consumer = consumer("auto.offset.reset", "none")) {
                TopicPartition p = new TopicPartition(prefix + "-none", 0);
                consumer.assign(List.of(p));
                consumer.seek(p, 1_000_000);
                try {
                    for (int i = 0; i < 50; i++) consumer.poll(Duration.ofMillis(200));
                    throw new AssertionError("no error");
                } catch (org.apache.kafka.clients.consumer.OffsetOutOfRangeException expected) {
                    want(expected.partitions().contains(p), expected);
                }
            }
        });
        check("too large a record", () -> {
            String topic = prefix + "-small";
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1).configs(Map.of("max.message.bytes", "1000")))).all().get();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties(), new StringSerializer(), new StringSerializer())) {
                producer.send(new ProducerRecord<>(topic, "x".repeat(5000))).get();
                throw new AssertionError("accepted");
            } catch (ExecutionException error) {
                want(error.getCause() instanceof RecordTooLargeException, error.getCause());
            }
        });
        check("describe topics and configs", () -> {
            TopicDescription description = admin.describeTopics(List.of(main)).allTopicNames().get().get(main);
            want(description.partitions().get(0).leader().id() == 1 && description.partitions().get(0).isr().size() == 1, description);
            want(admin.describeTopics(TopicCollection.ofTopicIds(List.of(description.topicId()))).allTopicIds().get().size() == 1, "by id");
            fails(UnknownTopicOrPartitionException.class, admin.describeTopics(List.of("nowhere")).allTopicNames());
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, main), broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
            Map<ConfigResource, Config> configs = admin.describeConfigs(List.of(topic, broker), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get();
            ConfigEntry retention = configs.get(topic).get("retention.ms");
            want(retention.value().equals("-1") && retention.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG && retention.type() == ConfigEntry.ConfigType.LONG, retention);
            want(!retention.synonyms().isEmpty() && !retention.documentation().isEmpty(), retention);
            want(configs.get(broker).get("num.partitions") != null, "num.partitions");
        });
        check("alter configs", () -> {
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, main);
            admin.incrementalAlterConfigs(Map.of(topic, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "86400000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all().get();
            until("the new value", () -> {
                Config config = admin.describeConfigs(List.of(topic)).all().get().get(topic);
                return config.get("retention.ms").value().equals("86400000") && config.get("cleanup.policy").value().equals("delete,compact");
            });
            admin.incrementalAlterConfigs(Map.of(topic, List.of(new AlterConfigOp(new ConfigEntry("cleanup.policy", ""), AlterConfigOp.OpType.DELETE)))).all().get();
            fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(topic, List.of(new AlterConfigOp(new ConfigEntry("segment.ms", "0"), AlterConfigOp.OpType.SET)))).all());
        });
        check("create partitions", () -> {
            String topic = prefix + "-assigned";
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4, List.of(List.of(1), List.of(1))))).all().get();
            until("four partitions", () -> exists(admin, topic, 4));
            fails(InvalidPartitionsException.class, admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all());
        });
        check("delete records", () -> {
            TopicPartition p = new TopicPartition(prefix + "-gzip", 0);
            DeletedRecords deleted = admin.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(7))).lowWatermarks().get(p).get();
            want(deleted.lowWatermark() == 7, deleted.lowWatermark());
            want(admin.listOffsets(Map.of(p, OffsetSpec.earliest())).partitionResult(p).get().offset() == 7, "earliest");
            fails(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, admin.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(1_000_000))).all());
        });
        check("log dirs", () -> {
            Map<String, LogDirDescription> dirs = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
            want(dirs.size() == 1, dirs);
            LogDirDescription dir = dirs.values().iterator().next();
            want(dir.error() == null && dir.totalBytes().getAsLong() > 0 && dir.usableBytes().getAsLong() > 0, dir);
            want(dir.replicaInfos().get(new TopicPartition(prefix + "-none", 0)).size() > 0, "size");
        });
        check("transactions: what is committed is read, with its offsets, and what is aborted is not", () -> {
            String from = prefix + "-none", to = prefix + "-transactions", group = prefix + "-etl";
            admin.createTopics(List.of(new NewTopic(to, 3, (short) 1))).all().get();
            until("the topic", () -> exists(admin, to, 3));
            TopicPartition source = new TopicPartition(from, 0);
            try (KafkaProducer<String, String> producer = transactional(prefix + "-tx")) {
                producer.initTransactions();
                for (int round = 0; round < 6; round++) {
                    producer.beginTransaction();
                    for (int p = 0; p < 3; p++) producer.send(new ProducerRecord<>(to, p, null, "r" + round));
                    producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(round + 1, "m" + round)), new ConsumerGroupMetadata(group));
                    // What is not sent yet when a transaction is aborted is never sent.
                    producer.flush();
                    if (round % 3 == 1) producer.abortTransaction(); else producer.commitTransaction();
                }
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(to, 0, null, "open")).get();
                want(values(to, "read_committed").equals(List.of("r0", "r2", "r3", "r5")), values(to, "read_committed"));
                want(values(to, "read_uncommitted").equals(List.of("r0", "r1", "r2", "r3", "r4", "r5", "open")), values(to, "read_uncommitted"));
                producer.abortTransaction();
            }
            OffsetAndMetadata committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(source);
            want(committed.offset() == 6 && committed.metadata().equals("m5"), committed);
        });
        check("transactions: a second producer fences the first", () -> {
            String to = prefix + "-transactions", id = prefix + "-fenced";
            try (KafkaProducer<String, String> first = transactional(id); KafkaProducer<String, String> second = transactional(id)) {
                first.initTransactions();
                first.beginTransaction();
                first.send(new ProducerRecord<>(to, 1, null, "a zombie's")).get();
                second.initTransactions();
                try {
                    first.commitTransaction();
                    throw new AssertionError("not fenced");
                } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                    second.beginTransaction();
                    second.send(new ProducerRecord<>(to, 1, null, "the heir's"));
                    second.commitTransaction();
                }
            }
            want(values(to, "read_committed").equals(List.of("r0", "r2", "r3", "r5")), "partition 0 is as it was");
        });
        check("transactions: listed and described", () -> {
            String id = prefix + "-tx";
            want(admin.listTransactions().all().get().stream().anyMatch(t -> t.transactionalId().equals(id)), "listed");
            TransactionDescription described = admin.describeTransactions(List.of(id)).description(id).get();
            want(described.coordinatorId() == 1 && described.state() == TransactionState.COMPLETE_ABORT && described.topicPartitions().isEmpty(), described);
            fails(TransactionalIdNotFoundException.class, admin.describeTransactions(List.of("nobody")).description("nobody"));
            TopicPartition p = new TopicPartition(prefix + "-transactions", 1);
            want(!admin.describeProducers(List.of(p)).partitionResult(p).get().activeProducers().isEmpty(), "producers");
        });
        check("transactions: refusals", () -> {
            try (KafkaProducer<String, String> producer = transactional(prefix + "-long", "transaction.timeout.ms", "900001")) {
                producer.initTransactions();
                throw new AssertionError("accepted");
            } catch (KafkaException expected) {
                want(expected.getMessage().contains("transaction.max.timeout.ms") || expected instanceof InvalidTxnTimeoutException, expected);
            }
        });
        check("delete topics", () -> {
            admin.deleteTopics(List.of(main, prefix + "-zstd")).all().get();
            Uuid id = admin.describeTopics(List.of(prefix + "-lz4")).allTopicNames().get().get(prefix + "-lz4").topicId();
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            until("gone", () -> Collections.disjoint(admin.listTopics().names().get(), List.of(main, prefix + "-zstd", prefix + "-lz4")));
            fails(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of("nowhere")).all());
        });
        System.out.println("done");
        Runtime.getRuntime().halt(0);
    }

    static KafkaProducer<String, String> transactional(String id, String... pairs) {
        Properties properties = properties(pairs);
        properties.put("transactional.id", id);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    /** Of partition 0, up to the end that this isolation level sees. */
    static List<String> values(String topic, String isolation) {
        try (KafkaConsumer<String, String> consumer = consumer("isolation.level", isolation)) {
            TopicPartition p = new TopicPartition(topic, 0);
            consumer.assign(List.of(p));
            consumer.seekToBeginning(List.of(p));
            long end = consumer.endOffsets(List.of(p)).get(p);
            List<String> values = new ArrayList<>();
            while (consumer.position(p) < end) consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            return values;
        }
    }

    static long end(String topic) {
        try (KafkaConsumer<String, String> consumer = consumer()) {
            return consumer.endOffsets(partitions(topic)).values().stream().mapToLong(o -> o).sum();
        }
    }
}
