import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * A member of a group that lives in ZooKeeper: OldConsumer ZOOKEEPER GROUP NAME TOPIC. Each message is a line: "got", partition,
 * offset, value. Leaves its group in order on SIGTERM.
 */
public class OldConsumer {
    public static void main(String[] given) {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", given[0]);
        settings.put("group.id", given[1]);
        settings.put("consumer.id", given[2]);
        settings.put("auto.offset.reset", "smallest");
        settings.put("auto.commit.interval.ms", "200");
        settings.put("zookeeper.session.timeout.ms", "20000");
        // Another member may still own what this one is to have.
        settings.put("rebalance.max.retries", "60");
        settings.put("rebalance.backoff.ms", "500");
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        Runtime.getRuntime().addShutdownHook(new Thread(connector::shutdown));
        KafkaStream<byte[], byte[]> stream = connector.createMessageStreams(Map.of(given[3], 1)).get(given[3]).get(0);
        for (MessageAndMetadata<byte[], byte[]> got : stream) {
            String value = new String(got.message(), StandardCharsets.UTF_8);
            System.out.println("got " + got.partition() + " " + got.offset() + " " + value);
        }
    }
}
