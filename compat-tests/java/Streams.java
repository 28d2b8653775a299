import java.nio.file.Files;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Kafka Streams counts words, exactly once, while brokers are killed. Every count is written, so that of each word the
 * output holds 1, 2, 3 and so on: a word counted twice or not at all is seen.
 * Arguments: BOOTSTRAP PREFIX LINES. Prints "ok NAME" or "FAIL NAME: why" for each check; "kill" asks for a broker's
 * death and is answered when it is back.
 */
public class Streams extends Checks {
    static final int PARTITIONS = 6, PATIENCE_MS = 180_000;

    static String prefix, in, out;
    static KafkaProducer<String, String> producer;
    static KafkaConsumer<String, String> reader;
    static int lines;
    static final Map<String, Long> due = new TreeMap<>(), counted = new TreeMap<>();

    /** With nothing on disk: its stores are restored from their changelogs. */
    static KafkaStreams start() throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(in, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withValueSerde(Serdes.Long()))
            .toStream().mapValues(Object::toString).to(out, Produced.with(Serdes.String(), Serdes.String()));
        String dir = Files.createTempDirectory("streams").toString();
        KafkaStreams streams = new KafkaStreams(builder.build(), properties("application.id", prefix, "processing.guarantee", "exactly_once_v2",
            "commit.interval.ms", "100", "num.stream.threads", "2", "replication.factor", "3", "auto.offset.reset", "earliest",
            "statestore.cache.max.bytes", "0", "state.dir", dir));
        streams.start();
        return streams;
    }

    static void send(int count) throws Exception {
        for (int i = 0; i < count; i++, lines++) {
            String line = "w" + lines % 17 + " v" + lines % 5 + " all";
            for (String word : line.split(" ")) due.merge(word, 1L, Long::sum);
            producer.send(new ProducerRecord<>(in, "k" + lines, line), (sent, error) -> {
                if (error != null) System.out.println("FAIL input is taken: " + error);
            });
        }
    }

    static long sum(Map<String, Long> counts) {
        return counts.values().stream().mapToLong(count -> count).sum();
    }

    static void read() {
        for (ConsumerRecord<String, String> record : reader.poll(Duration.ofMillis(200))) {
            long count = Long.parseLong(record.value());
            long last = counted.getOrDefault(record.key(), 0L);
            want(count == last + 1, record.key() + " is counted " + count + " after " + last);
            counted.put(record.key(), count);
        }
    }

    static void readUntil(long words) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (sum(counted) < words) {
            want(System.currentTimeMillis() < end, sum(counted) + " of " + words + " words are counted");
            read();
        }
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        prefix = args[1];
        int part = Integer.parseInt(args[2]) / 5;
        in = prefix + "-in";
        out = prefix + "-out";
        Admin admin = Admin.create(properties());
        admin.createTopics(List.of(new NewTopic(in, PARTITIONS, (short) 3), new NewTopic(out, PARTITIONS, (short) 3))).all().get();
        producer = new KafkaProducer<>(properties("acks", "all", "linger.ms", "5"), new StringSerializer(), new StringSerializer());
        reader = new KafkaConsumer<>(properties("isolation.level", "read_committed", "auto.offset.reset", "earliest", "enable.auto.commit", "false"), new StringDeserializer(), new StringDeserializer());
        List<TopicPartition> partitions = new ArrayList<>();
        for (int i = 0; i < PARTITIONS; i++) partitions.add(new TopicPartition(out, i));
        reader.assign(partitions);

        KafkaStreams[] streams = {start()};
        check("words are counted", () -> {
            send(part);
            producer.flush();
            readUntil(sum(due));
        });
        for (int kill = 1; kill <= 3; kill++) {
            check("a broker is killed while words are counted, " + kill + " of 3", () -> {
                long before = sum(counted);
                send(part);
                readUntil(before + 1);
                ask("kill", "back");
                producer.flush();
                readUntil(sum(due));
            });
        }
        check("another instance restores the counts and goes on", () -> {
            want(streams[0].close(Duration.ofSeconds(60)), streams[0].state());
            streams[0] = start();
            send(part);
            producer.flush();
            readUntil(sum(due));
        });
        check("every word is counted once: the output is the input", () -> {
            want(streams[0].close(Duration.ofSeconds(60)), streams[0].state());
            Map<TopicPartition, Long> ends = reader.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> reader.position(p) < ends.get(p))) read();
            want(counted.equals(due), counted + " where due is " + due);
        });
        System.out.println("done");
        Runtime.getRuntime().halt(0);
    }
}
