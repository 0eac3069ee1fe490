// Submits a problem, then polls its status until the answer is there. Needs kafka-clients; for Redis
// it speaks the few words of the protocol that it needs: a program of yours will use a library.
//   java -cp 'libs/*' SubmitAndPoll.java

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public final class SubmitAndPoll {
    private static final Set<String> ENDED = Set.of("done", "failed", "expired", "cancelled");
    private static final String STATUS_TTL_S = "691200";

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", "127.0.0.1:9092");
        StringSerializer text = new StringSerializer();
        String id = "job-" + UUID.randomUUID();
        String key = "solfleet:job:{" + id + "}";
        String job = """
            {"request_id": "%s", "params": {"max_tokens": 100, "seed": 7}, "problem": {
             "title": "Two Sum", "statement": "Return the indices of two numbers with a given sum."}}
            """.formatted(id);

        try (Redis store = new Redis("127.0.0.1", 6379);
                KafkaProducer<String, String> producer = new KafkaProducer<>(properties, text, text)) {
            // Optional: lets a poller see the job at once.
            if (store.call("HSETNX", key, "state", "queued").equals("1")) {
                store.call("EXPIRE", key, STATUS_TTL_S);
            }
            producer.send(new ProducerRecord<>("solfleet.jobs", id, job)).get();

            String state = store.call("HGET", key, "state");
            while (state == null || !ENDED.contains(state)) {
                Thread.sleep(200);
                state = store.call("HGET", key, "state");
            }
            System.out.println(id + " " + state);
            // The whole result in JSON; one too large for the status is on the results topic only.
            System.out.println(store.call("HGET", key, "result"));
        }
    }

    private static final class Redis implements AutoCloseable {
        private final Socket socket;
        private final InputStream input;

        Redis(String host, int port) throws IOException {
            socket = new Socket(host, port);
            input = new BufferedInputStream(socket.getInputStream());
        }

        /** The answer to one command as text; null for nil. Knows no arrays. */
        String call(String... words) throws IOException {
            StringBuilder command = new StringBuilder("*" + words.length + "\r\n");
            for (String word : words) {
                int bytes = word.getBytes(StandardCharsets.UTF_8).length;
                command.append('$').append(bytes).append("\r\n").append(word).append("\r\n");
            }
            socket.getOutputStream().write(command.toString().getBytes(StandardCharsets.UTF_8));
            String head = line();
            String rest = head.substring(1);
            return switch (head.charAt(0)) {
                case ':', '+' -> rest;
                case '$' -> rest.equals("-1") ? null : bulk(Integer.parseInt(rest));
                default -> throw new IOException("Redis: " + head);
            };
        }

        private String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int c = input.read(); c != '\r'; c = input.read()) {
                if (c < 0) {
                    throw new IOException("Redis closed the connection");
                }
                line.append((char) c);
            }
            input.read();
            return line.toString();
        }

        private String bulk(int bytes) throws IOException {
            byte[] text = input.readNBytes(bytes);
            input.readNBytes(2);
            return new String(text, StandardCharsets.UTF_8);
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }
}
