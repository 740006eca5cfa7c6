import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of share groups (KIP-932), told what to do line by line. A command is words between tabs, and so is what is
 * answered: {@code ok} and what there is to tell, or {@code failed}, the class of the exception and its message.
 *
 * <pre>
 * set group key=value …                          settings of a group
 * join name group topic key=value …              a member, with settings of its consumer
 * poll name ms                                   partition:offset:deliveries:value …
 * say name type partition:offset …               acknowledge
 * commit name                                    partition:exception … of what could not be kept
 * lock name                                      how long a record is its member's, in ms
 * leave name                                     close
 * offsets group                                  partition:start:lag …
 * </pre>
 */
public final class ShareMembers {
  private final String bootstrap;
  private final Admin admin;
  private final Map<String, ShareConsumer<String, String>> members = new HashMap<>();
  private final Map<String, Map<String, ConsumerRecord<String, String>>> held = new HashMap<>();

  private ShareMembers(String bootstrap) {
    this.bootstrap = bootstrap;
    Properties settings = new Properties();
    settings.put("bootstrap.servers", bootstrap);
    admin = Admin.create(settings);
  }

  public static void main(String[] told) throws Exception {
    ShareMembers program = new ShareMembers(told[0]);
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      List<String> answer = new ArrayList<>(List.of("ok"));
      try {
        answer.addAll(program.obey(line.split("\t")));
      } catch (Exception failure) {
        Throwable cause = failure instanceof KafkaException || failure.getCause() == null ? failure : failure.getCause();
        String message = String.valueOf(cause.getMessage()).replaceAll("\\s+", " ");
        answer = List.of("failed", cause.getClass().getSimpleName(), message);
      }
      System.out.println(String.join("\t", answer));
    }
    program.members.values().forEach(ShareConsumer::close);
    program.admin.close();
  }

  private List<String> obey(String[] command) throws Exception {
    String name = command[1];
    String[] rest = Arrays.copyOfRange(command, 2, command.length);
    switch (command[0]) {
      case "set":
        set(name, rest);
        return List.of();
      case "join":
        join(name, rest);
        return List.of();
      case "poll":
        return poll(name, Long.parseLong(rest[0]));
      case "say":
        for (String place : Arrays.copyOfRange(rest, 1, rest.length)) {
          members.get(name).acknowledge(held.get(name).get(place), AcknowledgeType.valueOf(rest[0]));
        }
        return List.of();
      case "commit":
        return commit(name);
      case "lock":
        return List.of(String.valueOf(members.get(name).acquisitionLockTimeoutMs().orElse(-1)));
      case "leave":
        members.remove(name).close();
        return List.of();
      case "offsets":
        return offsets(name);
      default:
        throw new IllegalArgumentException(command[0]);
    }
  }

  private void set(String group, String[] pairs) throws Exception {
    List<AlterConfigOp> changes = new ArrayList<>();
    for (String pair : pairs) {
      String[] parts = pair.split("=", 2);
      changes.add(new AlterConfigOp(new ConfigEntry(parts[0], parts[1]), AlterConfigOp.OpType.SET));
    }
    admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), changes)).all().get();
  }

  private void join(String name, String[] told) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", bootstrap);
    settings.put("group.id", told[0]);
    settings.put("client.id", name);
    for (int index = 2; index < told.length; index++) {
      String[] parts = told[index].split("=", 2);
      settings.put(parts[0], parts[1]);
    }
    ShareConsumer<String, String> member =
        new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    member.subscribe(List.of(told[1]));
    members.put(name, member);
    held.put(name, new HashMap<>());
  }

  private List<String> poll(String name, long patienceMs) {
    List<String> answer = new ArrayList<>();
    Map<String, ConsumerRecord<String, String>> records = held.get(name);
    for (ConsumerRecord<String, String> record : members.get(name).poll(Duration.ofMillis(patienceMs))) {
      String place = record.partition() + ":" + record.offset();
      records.put(place, record);
      answer.add(place + ":" + record.deliveryCount().map(String::valueOf).orElse("-") + ":" + record.value());
    }
    return answer;
  }

  private List<String> commit(String name) {
    List<String> answer = new ArrayList<>();
    Map<TopicIdPartition, Optional<KafkaException>> kept = members.get(name).commitSync();
    kept.forEach((place, error) -> error.ifPresent(
        one -> answer.add(place.partition() + ":" + one.getClass().getSimpleName())));
    return answer;
  }

  private List<String> offsets(String group) throws Exception {
    Map<Integer, String> found = new TreeMap<>();
    admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get()
        .forEach((place, info) -> {
          if (info != null) {
            String lag = info.lag().map(String::valueOf).orElse("-");
            found.put(place.partition(), place.partition() + ":" + info.startOffset() + ":" + lag);
          }
        });
    return new ArrayList<>(found.values());
  }
}
