import java.net.URI;
import java.net.http.*;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.connect.cli.ConnectDistributed;

/**
 * A Connect worker with exactly-once sources carries a file's lines into a topic, and those into another file, while
 * brokers are killed.
 * Arguments: BOOTSTRAP PREFIX LINES PORT; the worker's REST listens there. Prints "ok NAME" or "FAIL NAME: why" for each
 * check; "kill" asks for a broker's death and is answered when it is back.
 */
public class Connect extends Checks {
    static final int PATIENCE_MS = 180_000;
    static final HttpClient http = HttpClient.newHttpClient();

    static String url;
    static Path input;
    static final List<String> due = new ArrayList<>();

    interface Holds { boolean now() throws Exception; }

    static void until(String what, Holds holds) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!holds.now()) {
            want(System.currentTimeMillis() < end, "never: " + what);
            Thread.sleep(100);
        }
    }

    static HttpResponse<String> ask(HttpRequest.Builder request) throws Exception {
        return http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    static HttpRequest.Builder at(String path) {
        return HttpRequest.newBuilder(URI.create(url + path)).header("Content-Type", "application/json");
    }

    static boolean runs(String connector) throws Exception {
        return ask(at("/connectors/" + connector + "/status")).body().contains("\"tasks\":[{\"id\":0,\"state\":\"RUNNING\"");
    }

    static void make(String name, String config) throws Exception {
        String body = "{\"name\":\"" + name + "\",\"config\":{\"tasks.max\":\"1\"," + config + "}}";
        // While it rebalances it answers 409.
        until(name + " is made", () -> {
            HttpResponse<String> answer = ask(at("/connectors").POST(HttpRequest.BodyPublishers.ofString(body)));
            want(answer.statusCode() == 201 || answer.statusCode() == 409 || answer.statusCode() >= 500, answer.body());
            return answer.statusCode() == 201 || answer.statusCode() == 409 && answer.body().contains("already exists");
        });
        until(name + " runs", () -> runs(name));
    }

    static void append(int count) throws Exception {
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < count; i++) lines.add("line " + (due.size() + i));
        due.addAll(lines);
        Files.write(input, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    static Set<String> distinct(Path file) throws Exception {
        return Files.exists(file) ? new HashSet<>(Files.readAllLines(file)) : Set.of();
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String prefix = args[1], topic = prefix + "-lines", source = prefix + "-source", sink = prefix + "-sink";
        int part = Integer.parseInt(args[2]) / 4;
        url = "http://127.0.0.1:" + args[3];
        Path dir = Files.createTempDirectory("connect"), output = dir.resolve("out.txt"), file = dir.resolve("worker.properties");
        input = dir.resolve("in.txt");
        List<String> settings = new ArrayList<>(List.of("bootstrap.servers=" + bootstrap, "group.id=" + prefix, "listeners=" + url,
            "key.converter=org.apache.kafka.connect.storage.StringConverter", "value.converter=org.apache.kafka.connect.storage.StringConverter",
            "exactly.once.source.support=enabled", "offset.flush.interval.ms=1000", "consumer.isolation.level=read_committed"));
        for (String kind : List.of("offset", "config", "status")) {
            settings.add(kind + ".storage.topic=" + prefix + "-" + kind);
            settings.add(kind + ".storage.replication.factor=3");
        }
        Files.write(file, settings);
        Properties properties = properties();
        Admin admin = Admin.create(properties);
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 3))).all().get();
        append(part);
        new Thread(() -> ConnectDistributed.main(new String[] {file.toString()})).start();

        check("a file's lines go through a topic into a file", () -> {
            until("the worker answers", () -> {
                try {
                    return ask(at("/connectors")).statusCode() == 200;
                } catch (java.io.IOException early) {
                    return false;
                }
            });
            make(source, "\"connector.class\":\"FileStreamSource\",\"exactly.once.support\":\"required\",\"file\":\"" + input + "\",\"topic\":\"" + topic + "\"");
            make(sink, "\"connector.class\":\"FileStreamSink\",\"file\":\"" + output + "\",\"topics\":\"" + topic + "\"");
            until("the lines are out", () -> distinct(output).size() == due.size());
        });
        for (int kill = 1; kill <= 3; kill++) {
            check("a broker is killed while lines flow, " + kill + " of 3", () -> {
                int before = distinct(output).size();
                append(part);
                until("lines flow", () -> distinct(output).size() > before);
                ask("kill", "back");
                until("the lines are out", () -> distinct(output).size() == due.size());
            });
        }
        check("the topic holds the file's lines in their order, each once", () -> {
            properties.put("isolation.level", "read_committed");
            properties.put("auto.offset.reset", "earliest");
            List<String> lines = new ArrayList<>();
            try (KafkaConsumer<String, String> reader = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
                TopicPartition partition = new TopicPartition(topic, 0);
                reader.assign(List.of(partition));
                long end = reader.endOffsets(List.of(partition)).get(partition);
                while (reader.position(partition) < end) reader.poll(Duration.ofMillis(200)).forEach(record -> lines.add(record.value()));
            }
            for (int i = 0; i < Math.max(lines.size(), due.size()); i++) {
                want(i < lines.size() && i < due.size() && lines.get(i).equals(due.get(i)), "line " + i + " of " + lines.size() + " and " + due.size());
            }
        });
        check("the other file holds those lines and no others", () -> want(distinct(output).equals(new HashSet<>(due)), "they differ"));
        System.out.println("done");
        Runtime.getRuntime().halt(0);
    }
}
