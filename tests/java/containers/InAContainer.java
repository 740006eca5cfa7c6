import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.testcontainers.containers.Network;
import tallystick.testcontainers.TallystickContainer;

/** A user's test, without a framework: two brokers in containers, a transaction in one of them, read by a consumer. */
public class InAContainer {
  public static void main(String[] arguments) throws Exception {
    try (Network network = Network.newNetwork();
        TallystickContainer broker =
            new TallystickContainer().withSetting("num.partitions", "3").withNetwork(network).withNetworkAliases("broker");
        TallystickContainer other = new TallystickContainer().withDurability("fsync")) {
      broker.start();
      other.start();
      String bootstrap = broker.getBootstrapServers();
      say("apart", !bootstrap.equals(other.getBootstrapServers()));
      say("network", broker.getNetworkBootstrapServers());
      Map<String, Object> writing = Map.of("bootstrap.servers", bootstrap, "transactional.id", "copier");
      try (var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("orders", "one order"));
        producer.commitTransaction();
      }
      Map<String, Object> reading =
          Map.of("bootstrap.servers", bootstrap, "group.id", "readers", "auto.offset.reset", "earliest");
      try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
        consumer.subscribe(List.of("orders"));
        var records = consumer.poll(Duration.ofMillis(100));
        while (records.isEmpty()) {
          records = consumer.poll(Duration.ofMillis(100));
        }
        say("read", records.iterator().next().value());
        say("partitions", consumer.partitionsFor("orders").size());
      }
      try (var admin = Admin.create(Map.<String, Object>of("bootstrap.servers", other.getBootstrapServers()))) {
        say("topics of the other", admin.listTopics().names().get().size());
      }
    }
    System.exit(0);
  }

  private static void say(String what, Object is) {
    System.out.println(what + ": " + is);
  }
}
