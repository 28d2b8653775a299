import java.lang.reflect.Method;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * Transactions of the Java client, in the words that every version from 0.11 to 4.2 understands.
 * Arguments: BOOTSTRAP PREFIX. Prints "ok NAME" or "FAIL NAME: why" for each check, and asks with "restart".
 */
public class Transactions extends Checks {
    static KafkaProducer<String, String> producer(String id) {
        // Before 2.1 a send is given up after so many tries, and a restarted broker is away for some of them.
        Properties properties = properties("transactional.id", id, "retries", "1000", "retry.backoff.ms", "50");
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String group, String isolation) {
        Properties properties = properties("group.id", group, "isolation.level", isolation, "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** From 4.0 on it takes a Duration only, before 2.0 a number only. */
    @SuppressWarnings("unchecked")
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 200L);
        } catch (NoSuchMethodException gone) {
            Class<?> duration = Class.forName("java.time.Duration");
            Object some = duration.getMethod("ofMillis", long.class).invoke(null, 200L);
            return (ConsumerRecords<String, String>) KafkaConsumer.class.getMethod("poll", duration).invoke(consumer, some);
        }
    }

    /** From 4.0 on the group is told with its members' metadata only, before 2.5 by its name only. */
    static void sendOffsets(KafkaProducer<String, String> producer, TopicPartition partition, long offset, String group) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = Collections.singletonMap(partition, new OffsetAndMetadata(offset, "m"));
        Method method;
        Object named = group;
        try {
            Class<?> metadata = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
            method = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, metadata);
            named = metadata.getConstructor(String.class).newInstance(group);
        } catch (ClassNotFoundException | NoSuchMethodException older) {
            method = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class);
        }
        method.invoke(producer, offsets, named);
    }

    /** What is there up to the end that this isolation level sees. */
    static List<String> values(String topic, String isolation) throws Exception {
        TopicPartition p = new TopicPartition(topic, 0);
        List<TopicPartition> one = Collections.singletonList(p);
        try (KafkaConsumer<String, String> consumer = consumer(topic + "-reader", isolation)) {
            consumer.assign(one);
            consumer.seekToBeginning(one);
            long end = consumer.endOffsets(one).get(p);
            List<String> values = new ArrayList<>();
            while (consumer.position(p) < end) for (ConsumerRecord<String, String> record : poll(consumer)) values.add(record.value());
            return values;
        }
    }

    /** Where the group's next member begins. */
    static long committed(String group, TopicPartition partition) {
        try (KafkaConsumer<String, String> consumer = consumer(group, "read_committed")) {
            consumer.assign(Collections.singletonList(partition));
            return consumer.position(partition);
        }
    }

    static void create(AdminClient admin, String topic) throws Exception {
        admin.createTopics(Collections.singletonList(new NewTopic(topic, 1, (short) 1))).all().get();
    }

    static ProducerRecord<String, String> record(String topic, String value) {
        return new ProducerRecord<>(topic, 0, null, value);
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String prefix = args[1];
        AdminClient admin = AdminClient.create(properties());

        check("what is committed is read, with its offsets, and what is aborted is not", () -> {
            String topic = prefix + "-transactions", group = prefix + "-etl";
            create(admin, topic);
            TopicPartition source = new TopicPartition(topic, 0);
            try (KafkaProducer<String, String> producer = producer(topic)) {
                producer.initTransactions();
                for (int round = 0; round < 6; round++) {
                    producer.beginTransaction();
                    producer.send(record(topic, "r" + round));
                    sendOffsets(producer, source, round + 1, group);
                    // What is not sent yet when a transaction is aborted is never sent.
                    producer.flush();
                    if (round % 3 == 1) producer.abortTransaction(); else producer.commitTransaction();
                }
                producer.beginTransaction();
                producer.send(record(topic, "open")).get();
                List<String> read = values(topic, "read_committed"), all = values(topic, "read_uncommitted");
                want(read.equals(Arrays.asList("r0", "r2", "r3", "r5")), read);
                want(all.equals(Arrays.asList("r0", "r1", "r2", "r3", "r4", "r5", "open")), all);
                sendOffsets(producer, source, 99, group);
                producer.abortTransaction();
            }
            want(committed(group, source) == 6, committed(group, source));
        });
        check("a second producer fences the first", () -> {
            String topic = prefix + "-fenced";
            create(admin, topic);
            try (KafkaProducer<String, String> first = producer(topic); KafkaProducer<String, String> second = producer(topic)) {
                first.initTransactions();
                first.beginTransaction();
                first.send(record(topic, "a zombie's")).get();
                second.initTransactions();
                try {
                    first.commitTransaction();
                    throw new AssertionError("not fenced");
                } catch (ProducerFencedException expected) {
                    // So it is named by every version up to 2.6.
                } catch (KafkaException other) {
                    want(other.getClass().getSimpleName().equals("InvalidProducerEpochException"), other);
                }
                second.beginTransaction();
                second.send(record(topic, "the heir's"));
                second.commitTransaction();
            }
            want(values(topic, "read_committed").equals(Collections.singletonList("the heir's")), values(topic, "read_committed"));
        });
        check("a transaction goes on when the broker was away", () -> {
            String topic = prefix + "-away", group = prefix + "-away-etl";
            create(admin, topic);
            TopicPartition source = new TopicPartition(topic, 0);
            try (KafkaProducer<String, String> producer = producer(topic)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(record(topic, "before")).get();
                sendOffsets(producer, source, 1, group);
                ask("restart", "restarted");
                producer.send(record(topic, "after"));
                producer.commitTransaction();
            }
            want(values(topic, "read_committed").equals(Arrays.asList("before", "after")), values(topic, "read_committed"));
            want(committed(group, source) == 1, committed(group, source));
        });
        System.out.println("done");
        Runtime.getRuntime().halt(0);
    }
}
